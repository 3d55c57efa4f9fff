"""The program ``liqod``: the daemon starts lean, every other command through the command line."""

import sys


def main() -> int | None:
    """Entry point; the exit status."""
    if sys.argv[1:2] == ["run"]:
        from liqod.daemon import command

        return command(sys.argv[2:])
    from liqod.cli import app

    return app.main()


if __name__ == "__main__":
    sys.exit(main())
