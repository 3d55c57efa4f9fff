"""Fake nodes beside a real control plane: `python -m tests.testbed.fakenodes --kubeconfig F NAME…`.

In a process of its own, so that what it costs is not counted as anybody else's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import trio
from liqod.simulator.agent import run_nodes

from liqod.kube import credentials
from liqod.kube.client import Client


async def serve(kubeconfig: Path, names: list[str], delay: float) -> None:
    """Keeps the nodes up until cancelled."""
    found = await credentials.load(kubeconfig, None)
    async with Client(found, user_agent="liqod-testbed-nodes") as client:
        await run_nodes(client, names, start_delay=delay)


def main(arguments: list[str]) -> None:
    """Runs until it is told to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.fakenodes")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds until a pod runs")
    parser.add_argument("names", nargs="+")
    chosen = parser.parse_args(arguments)
    trio.run(serve, chosen.kubeconfig, chosen.names, chosen.delay)


if __name__ == "__main__":
    main(sys.argv[1:])
