"""``version``: print the version."""

from liqod import __version__
from liqod.cli.frame import OUTPUTS, Frame, command


@command(cluster=False, outputs=OUTPUTS)
async def version(frame: Frame) -> None:
    """Print the version."""
    if not frame.show({"version": __version__}):
        frame.print_text(f"liqod {__version__}")
