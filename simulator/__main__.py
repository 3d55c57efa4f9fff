"""Embedded clusters from the shell: ``python -m simulator NAME --write-kubeconfig FILE``.

Several names start several clusters in one process; each kubeconfig is written before the line
that says so is printed. They run until the process gets a signal to end.
"""

import argparse
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import trio

from simulator.cluster import EmbeddedCluster


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m simulator", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="a cluster to start")
    parser.add_argument(
        "--write-kubeconfig",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="where the administrator's kubeconfig goes; once per cluster, in their order",
    )
    parser.add_argument("--port", type=int, default=0, help="of the first cluster; counted up")
    parser.add_argument("--nodes", type=int, default=2, help="fake nodes of each (default 2)")
    parser.add_argument(
        "--start-delay", type=float, default=0.2, help="seconds until a pod runs (default 0.2)"
    )
    parser.add_argument(
        "--pod-cidr",
        action="append",
        default=[],
        help="once per cluster; default 10.1.0.0/16, 10.2.0.0/16, …",
    )
    found = parser.parse_args(arguments)
    if len(found.write_kubeconfig) > len(found.names):
        parser.error("there are more kubeconfigs to write than clusters")
    return found


async def serve(options: argparse.Namespace) -> None:
    """Run the clusters until a signal."""
    async with AsyncExitStack() as stack:
        for index, name in enumerate(options.names):
            cidrs = options.pod_cidr
            cluster = await stack.enter_async_context(
                EmbeddedCluster(
                    name,
                    nodes=options.nodes,
                    start_delay=options.start_delay,
                    pod_cidr=cidrs[index] if index < len(cidrs) else f"10.{index + 1}.0.0/16",
                    port=options.port + index if options.port else 0,
                )
            )
            if index < len(options.write_kubeconfig):
                write(options.write_kubeconfig[index], cluster.kubeconfig)
            print(f"{name} {cluster.server}", flush=True)
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                return


def write(path: Path, kubeconfig: str) -> None:
    """Write a kubeconfig, whole and readable by its owner only."""
    partial = path.with_name(path.name + ".new")
    partial.touch(mode=0o600)
    partial.write_text(kubeconfig)
    partial.replace(path)


if __name__ == "__main__":
    trio.run(serve, parse(sys.argv[1:]))
