"""The tree of commands. ``liqod run`` is not here: the daemon starts without this package."""

import os
import signal
import sys
from collections.abc import Sequence

import typer

from liqod.cli import installing, looking, offloading, peering, tenants

app = typer.Typer(
    name="liqod",
    help="Join Kubernetes clusters peer to peer: lend and borrow capacity as ordinary nodes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_GROUPS = {
    "generate": "Make credentials for others.",
    "delete": "Take credentials back.",
    "offload": "Spread a namespace over peers.",
    "unoffload": "Bring a namespace back.",
    "cordon": "Accept no new work.",
    "uncordon": "Accept work again.",
    "drain": "Send a peer's work away.",
    "activate": "Accept a drained peer again.",
}
groups = {
    name: typer.Typer(help=text, no_args_is_help=True, rich_markup_mode=None)
    for name, text in _GROUPS.items()
}


@app.command("run")
def run() -> None:
    """Run the daemon (`liqod run --help` has its options)."""


app.command("install")(installing.install)
app.command("uninstall")(installing.uninstall)
app.command("peer")(peering.peer)
app.command("unpeer")(peering.unpeer)
app.command("status")(looking.status)
app.command("logs")(looking.logs)
app.command("plugins")(looking.plugins)
app.command("check")(looking.check)
app.command("version")(looking.version)
groups["generate"].command("peering-user")(peering.generate_peering_user)
groups["delete"].command("peering-user")(peering.delete_peering_user)
groups["offload"].command("namespace")(offloading.offload)
groups["unoffload"].command("namespace")(offloading.unoffload)
groups["cordon"].command("tenant")(tenants.cordon_tenant)
groups["cordon"].command("resourceslice")(tenants.cordon_slice)
groups["uncordon"].command("tenant")(tenants.uncordon_tenant)
groups["uncordon"].command("resourceslice")(tenants.uncordon_slice)
groups["drain"].command("tenant")(tenants.drain_tenant)
groups["activate"].command("tenant")(tenants.activate_tenant)
for name, group in groups.items():
    app.add_typer(group, name=name)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; the exit status.

    A reader that goes away, as in ``liqod status | head -1``, ends it without a word.
    """
    status: object = 0
    try:
        try:
            app(list(sys.argv[1:] if arguments is None else arguments), prog_name="liqod")
        except SystemExit as end:
            status = end.code
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more when it ends, and must not fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return status if isinstance(status, int) else int(status is not None)
