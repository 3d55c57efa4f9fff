"""``liqod demo``: the demo in a folder of its own, which goes when it ends.

However it ends, by itself, by Ctrl-C or by SIGTERM, no process and no file is left, but for the
logs of a demo that failed.
"""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import trio

from liqod.errors import LiqodError
from liqod.runtime.arguments import Parser
from liqod.runtime.supervise import explain, leaves
from simulator.demo.programs import print_line
from simulator.demo.story import Demo


async def perform(*, once: bool) -> int:
    """Run the demo in a folder of its own until it ends or a signal ends it; the exit status.

    Interrupted once all is up it has done its job, and the status is 0.
    """
    received = 0
    kept = False
    status = 1
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        folder = Path(tempfile.mkdtemp(prefix="liqod-demo-"))
        demo = Demo(folder)
        try:
            async with trio.open_nursery() as nursery:

                async def watch() -> None:
                    nonlocal received
                    async for number in signals:
                        nursery.cancel_scope.cancel()
                        if not received:
                            received = number
                            print_line("\nstopping …")

                nursery.start_soon(watch)
                status = await demo.run(once=once)
                kept = status != 0
                nursery.cancel_scope.cancel()
        except* LiqodError as group:
            kept = not received
            print_line(f"liqod: {explain(group)}")
        finally:
            if not kept:
                shutil.rmtree(folder, ignore_errors=True)
    if kept:
        print_line(f"the logs are kept in {folder}")
    if received:
        print_line("stopped; nothing is left")
        return 0 if demo.complete else 128 + received
    return status


def parser() -> Parser:
    """The options."""
    made = Parser(
        prog="liqod demo",
        allow_abbrev=False,
        description="Start three embedded clusters that find each other and lend, and show them.",
    )
    made.add_argument("--once", action="store_true", help="end by itself, with 0 if all is well")
    return made


def main(arguments: list[str]) -> int:
    """Run the demo; the exit status."""
    once = parser().parse_args(arguments).once
    print_line(
        "liqod demo: three clusters, a daemon beside each, and a namespace that spreads over them"
    )
    try:
        return trio.run(lambda: perform(once=once))
    except* OSError as group:
        # The reader has gone: nobody is left to inform, and flushing must not fail again.
        if sys.stdout.closed or not isinstance(leaves(group)[0], BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 128 + signal.SIGPIPE
