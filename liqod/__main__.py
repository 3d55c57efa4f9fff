"""The program ``liqod``: the daemons start lean, ``top`` and ``demo`` are programs of their own,
and every other command goes through the command line."""

import sys
from typing import TYPE_CHECKING

from liqod import __version__

if TYPE_CHECKING:
    from pathlib import Path


def main() -> int | None:
    """Entry point; the exit status."""
    if sys.argv[1:2] == ["run"]:
        from liqod.daemon import command

        return command(sys.argv[2:])
    if sys.argv[1:2] == ["node"]:
        from liqod import node

        return node.command(sys.argv[2:])
    if sys.argv[1:2] == ["tunnel"]:
        from liqod.tunnel import __main__ as tunnel

        tunnel.main(sys.argv[2:])
        return None
    if sys.argv[1:2] == ["top"]:
        from tui.__main__ import main as look

        return look(sys.argv[2:], _elsewhere, _own)
    if sys.argv[1:2] == ["demo"]:
        return _demo(sys.argv[2:])
    from liqod.cli import app

    return app.main()


def _demo(arguments: list[str]) -> int:
    """Run the demo of the distribution ``liqod-simulator``, where that is there."""
    try:
        from simulator.demo import program
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("simulator"):
            raise
        wheel = f"liqod_simulator-{__version__}-py3-none-any.whl"
        needed = f"{sys.executable} -m pip install {wheel}"
        sys.stderr.write(f"liqod demo: it needs liqod-simulator beside liqod: {needed}\n")
        return 2
    return program.main(arguments)


def _elsewhere() -> str:
    """Where the daemon of the kubeconfig's cluster shows its live view."""
    import trio

    from liqod.cli import presence

    return trio.run(presence.elsewhere, None, "", "top")


def _own(kubeconfig: "Path | None", context: str) -> "tuple[Path | None, str]":
    """The socket here of the daemon of the kubeconfig's cluster, or why there is none."""
    import trio

    from liqod.cli import inspectorclient
    from liqod.errors import ConfigError

    try:
        return trio.run(inspectorclient.preferred, kubeconfig, context)
    except ConfigError as error:
        return None, str(error)


if __name__ == "__main__":
    sys.exit(main())
