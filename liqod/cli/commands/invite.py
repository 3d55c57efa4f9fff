"""``invite``: let others borrow from this cluster, or lend to it, by one line; list and withdraw
such lines."""

import sys
from typing import Annotated, Any

import msgspec
import typer

from liqod.apimachinery import labels
from liqod.cli import presence, qr, typed
from liqod.cli.commands.peer import Others
from liqod.cli.frame import OUTPUTS, Frame, command, warn
from liqod.cli.options import LiqoNamespace, MetAt, Yes
from liqod.cli.output import table
from liqod.consumer.identities.clusterkeys import cluster_keys
from liqod.errors import ConfigError, Misuse
from liqod.handshake.protocol import invitationtokens
from liqod.handshake.requests import invitations
from liqod.identity import keys
from liqod.kube import times
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.procedures import overcommit
from liqod.resources import INVITATIONS, Invitation

Expires = Annotated[str, typer.Option(help="How long it is good, such as 30m, 1h or 7d.")]
Uses = Annotated[int, typer.Option(min=1, max=1000, help="How many clusters may use it.")]
Borrow = Annotated[
    bool, typer.Option("--borrow", help="Ask the cluster that uses it to lend to this one.")
]
For = Annotated[str, typer.Option("--for", help="The only cluster that may.", show_default="any")]
ForKey = Annotated[str, typer.Option(help="SHA-256 of the only key that may.", show_default="any")]
NAME = typer.Argument(metavar="INVITATION", help="Its name, of `liqod invite list`, or the line.")


@command(timeout=30.0, outputs=OUTPUTS)
async def invite(
    frame: Frame,
    cpu: Annotated[str, typer.Option(help="CPUs that are granted, or asked for.")] = "",
    memory: Annotated[str, typer.Option(help="Likewise memory, such as 8Gi.")] = "",
    pods: Annotated[str, typer.Option(help="Likewise pods.")] = "",
    resource: Others = None,
    borrow: Borrow = False,
    expires: Expires = "1h",
    uses: Uses = 1,
    for_: For = "",
    for_key: ForKey = "",
    address: MetAt = None,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Let another cluster borrow here, or lend, by a line.

    A cluster that brings the line to `liqod peer` is let in without being asked, once, for as long
    as the line is good. It gets no more than is named here. Of what is not named it gets what the
    configuration grants where a slice names nothing. Hand it over as you would a password: only its
    hash is kept.

    With --borrow the line asks the cluster that brings it to lend this much to this one: a cluster
    behind a NAT, say, which nobody can dial. It decides for itself what it lends. This cluster's
    pods, with the secrets that they use, go to any cluster that brings the line: --for-key names
    the only one that may.

    \b
    Examples:
      liqod invite --cpu 8 --memory 16Gi --expires 1h
      liqod invite --borrow --cpu 8 --memory 16Gi
      liqod invite --for rome --uses 1 --address milan.example:6446
      liqod invite list
      liqod invite revoke invitation-0a1b2c3d
    """
    granted = typed.quantities(cpu, memory, pods, resource or [])
    lifetime = typed.seconds(expires)
    if lifetime > invitations.LONGEST:
        raise Misuse(f"--expires {expires}: an invitation is good for a year (366d) at the most")
    said = typed.addresses(address or ())
    typed.cluster(for_, "--for")
    only = typed.key(for_key, "--for-key")
    async with frame.client() as client:
        frame.progress("make the invitation")
        pair = await cluster_keys(client, liqo_namespace)
        wanted = invitations.InvitationParameters(
            addresses=said or await presence.advertised_addresses(client, liqo_namespace),
            key=keys.print_of(pair.public),
            lifetime=lifetime,
            uses=uses,
            resources=granted,
            borrow=borrow,
            cluster_id=for_,
            for_key=only,
        )
        token, until = await invitations.invite(client, liqo_namespace, wanted)
        more = "" if borrow else await overcommit.beyond(client, granted)
    if more:
        warn(f"once it is used, {more}")
    line = invitationtokens.format_token(token)
    if frame.show({"name": token.id, "invitation": line, "expires": until}):
        return
    frame.print_text(line)
    if sys.stdout.isatty():
        for row in qr.drawn(line):
            frame.print_text(row)


@command(timeout=30.0, outputs=OUTPUTS)
async def list(frame: Frame, liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE) -> None:
    """List the invitations: what is granted or asked for, until when, and who has used them.

    \b
    Examples:
      liqod invite list
      liqod invite list -o json
    """
    async with frame.client() as client:
        found = await client.list(INVITATIONS, Selection(liqo_namespace), decode=Invitation)
    rows = [_row(each) for each in found]
    if frame.show(rows):
        return
    if not rows:
        frame.print_text("there are no invitations")
        return
    shown = [
        [
            each["name"],
            each["state"],
            f"{each['used']} of {each['uses']}",
            each["expires"],
            _meant(each["resources"], borrow=each["borrow"]),
            ", ".join(each["usedBy"]) or (f"for {each['for']}" if each["for"] else ""),
        ]
        for each in rows
    ]
    header = ["INVITATION", "STATE", "USED", "EXPIRES", "GRANTS", "BY"]
    frame.print_text(table(shown, header), lines=True)


@command(timeout=30.0, outputs=OUTPUTS)
async def revoke(
    frame: Frame,
    name: Annotated[str, NAME],
    yes: Yes = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Withdraw an invitation; who was let in by it stays (`liqod revoke PEER` ends that).

    \b
    Examples:
      liqod invite revoke invitation-0a1b2c3d
    """
    name = typed.bare(name)
    if typed.is_line(name):
        name = typed.token(name).id
    elif not ids.is_dns_subdomain(name):
        raise Misuse(f"{name[:80]!r} is no name of an invitation: see `liqod invite list`")
    frame.confirm(f"withdraws the invitation {name}", yes=yes)
    async with frame.client() as client:
        if not await client.delete(INVITATIONS, name, liqo_namespace):
            raise ConfigError(f"there is no invitation {name}: see `liqod invite list`")
    if not frame.show({"name": name, "withdrawn": True}):
        frame.print_text(f"{name} is withdrawn")


def _row(found: Invitation) -> dict[str, Any]:
    reason = invitations.over(found, times.now())
    return {
        "name": found.name,
        "state": {"": "open", "Used": "used", "Expired": "expired"}[reason],
        "used": len(found.status.used_by),
        "uses": found.spec.uses,
        "expires": found.spec.expires,
        "resources": msgspec.to_builtins(found.spec.resources),
        "borrow": found.spec.borrow,
        "for": found.spec.cluster_id or (found.spec.key[:16] and f"key {found.spec.key[:16]}…"),
        "usedBy": [use.cluster_id for use in found.status.used_by],
    }


def _meant(resources: dict[str, str], *, borrow: bool) -> str:
    """The resources that a line grants, or asks for."""
    amounts = ", ".join(f"{name} {n}" for name, n in resources.items()) or "the defaults"
    return f"borrows {amounts}" if borrow else amounts
