"""``liqod top --web``: the same program in a browser, served on loopback by textual-serve."""

import shlex
import sys

HOST = "127.0.0.1"
"""Whoever reaches the page acts with this user's rights, so it is never served to a network."""


def serve(arguments: list[str], port: int) -> int:
    """Serve until interrupted; one program for each browser window."""
    try:
        from textual_serve.server import Server
    except ImportError:
        print("liqod top --web needs textual-serve: pip install 'liqod[web]'", file=sys.stderr)
        return 2
    rest = [word for word in arguments if word != "--web"]
    command = shlex.join([sys.executable, "-m", "tui", *rest])
    print(f"liqod top: http://{HOST}:{port}  (Ctrl-C ends it)", flush=True)
    Server(command, host=HOST, port=port, title="liqod top").serve()
    return 0
