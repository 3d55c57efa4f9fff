"""Fake nodes beside a real control plane: `python -m tests.testbed.fakenodes --kubeconfig F NAME…`.

In a process of its own, so that what it costs is not counted as anybody else's.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import trio

from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from simulator.nodes.agent import run_nodes


async def serve(chosen: argparse.Namespace) -> None:
    """Keeps the nodes up until cancelled."""
    found = await credentials.load(chosen.kubeconfig, None)
    capacity = {"cpu": str(chosen.pods), "memory": f"{chosen.pods}Gi", "pods": str(chosen.pods)}
    async with Client(found, user_agent="liqod-testbed-nodes") as client:
        await run_nodes(
            client,
            chosen.names,
            start_delay=chosen.delay,
            pod_cidr=chosen.pod_cidr,
            capacity=capacity,
            tells=chosen.tells,
        )


def main(arguments: list[str]) -> None:
    """Runs until it is asked to end."""
    parser = argparse.ArgumentParser(prog="python -m tests.testbed.fakenodes")
    parser.add_argument("--kubeconfig", type=Path, required=True)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds until a pod runs")
    parser.add_argument("--pod-cidr", default="10.244.0.0/16", help="where addresses come from")
    parser.add_argument("--pods", type=int, default=110, help="room, with 1 CPU and 1 GiB each")
    parser.add_argument("--tells", action="store_true", help="write Events of pods that start")
    parser.add_argument("names", nargs="+")
    trio.run(serve, parser.parse_args(arguments))


if __name__ == "__main__":
    main(sys.argv[1:])
