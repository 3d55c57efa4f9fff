"""The program ``liqod``: the daemon starts lean, ``top`` is a program of its own, and every other
command goes through the command line."""

import sys


def main() -> int | None:
    """Entry point; the exit status."""
    if sys.argv[1:2] == ["run"]:
        from liqod.daemon import command

        return command(sys.argv[2:])
    if sys.argv[1:2] == ["top"]:
        from tui.__main__ import main as look

        return look(sys.argv[2:])
    from liqod.cli import app

    return app.main()


if __name__ == "__main__":
    sys.exit(main())
