"""``rotate``: give this cluster another key."""

from typing import Annotated

import msgspec
import trio
import typer

from liqod.apimachinery import labels
from liqod.cli import presence, terminal
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.cli.options import LiqoNamespace, Yes
from liqod.cluster.ownid import own_cluster_id
from liqod.kube.client import Client
from liqod.procedures import rotating
from liqod.procedures.rotating import RotationStatus

REST = 10.0
"""Seconds of the command's time that are left for printing the result."""


@command(timeout=120.0, outputs=OUTPUTS)
async def key(
    frame: Frame,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say who follows, and change nothing.")
    ] = False,
    yes: Yes = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Give this cluster another key, by which its peers know it from then on.

    Peers whose liqod can follow accept the other key by a signature of the present one, each as
    soon as its daemon runs. No pod and no peering ends by it. Peers that run Liqo, or an older
    liqod, are named before: with them the present key stays in use until each peering is ended
    on both sides and made again. When no peer needs it any more the daemon destroys it.
    Certificates for it have no rights at the peers that have followed.

    While a peer needs a former key, no other one is made. The command waits for those that have
    not followed yet, and says so (`made` is false in the output). Exit status 1: a peer still has
    the former key of this cluster.

    \b
    Examples:
      liqod rotate key --dry-run
      liqod rotate key
      liqod rotate key --yes -o json
    """
    async with frame.client() as client:
        here = await own_cluster_id(client, liqo_namespace)
        before = await rotating.rotation_status(client, liqo_namespace)
        why = "" if before.former else await rotating.in_the_way(client, liqo_namespace)
    if dry_run:
        if not frame.show(before):
            frame.print_text(_progress(before), lines=True)
        if why:
            frame.die(why)
        return
    if why:
        frame.die(why)
    if before.goes_on:
        terminal.note("no other key is made: a change of before is not over")
    else:
        frame.confirm(_meant(before), yes=yes)
    until = trio.current_time() + max(frame.timeout - REST, 1.0)
    async with (
        frame.client() as client,
        presence.daemon(client, liqo_namespace, frame.progress, frame.timings),
    ):
        if not before.goes_on:
            await _make(frame, client, liqo_namespace, before, here, until)
        within = until - trio.current_time()
        now = await rotating.followed(client, liqo_namespace, frame.progress, within=within)
    now = msgspec.structs.replace(now, made=not before.goes_on)
    if not frame.show(now):
        frame.print_text(_progress(now), lines=True)
    if now.waits or now.never:
        frame.die("the former key is still in use; `liqod status` says with whom")


async def _make(
    frame: Frame, client: Client, namespace: str, before: RotationStatus, here: str, until: float
) -> None:
    """Make another key, once that of before is gone, which nobody needs."""
    if before.former:
        within = until - trio.current_time()
        if not await rotating.destroyed(client, namespace, frame.progress, within=within):
            frame.die(
                "the former key is kept for a minute after everybody has followed: nothing was"
                " changed; again with more time (--timeout)"
            )
    frame.progress("make another key")
    await rotating.start_rotation(client, namespace, here)


def _meant(now: RotationStatus) -> str:
    """Says what is about to be done, and what is not."""
    parts = ["makes another key for this cluster"]
    if now.follow:
        parts.append(f"which {', '.join(now.follow)} will follow")
    if now.never:
        parts.append(
            f"not {', '.join(now.never)} ({rotating.NEVER}), with whom the present key stays in use"
            " until you `liqod unpeer` on both sides and peer again"
        )
    if now.invitations:
        parts.append(f"ends the invitations {', '.join(now.invitations)}, which name this one")
    return ", ".join(parts)


def _progress(now: RotationStatus) -> str:
    lines = [f"key {now.key}"]
    lines += [f"former key {now.former}, still kept"] if now.former else []
    said = {
        "followed": "has followed",
        "follows": "follows when its daemon is there",
        "never": f"does not follow: {rotating.NEVER}; `liqod unpeer` on both sides, and peer again",
    }
    lines += [f"{each.cluster_id} ({each.role}): {said[each.state]}" for each in now.peers]
    lines += [f"invitation {each}: its line names the key of its time" for each in now.invitations]
    return "\n".join(lines)
