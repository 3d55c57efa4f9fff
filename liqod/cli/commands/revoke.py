"""``revoke``: take back at once what a peer was given, or gave."""

from liqod.apimachinery import labels
from liqod.cli import typed
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.cli.options import LiqoNamespace, PeerId, Yes
from liqod.procedures import agreements
from liqod.procedures.revoking import carry_out, roles_of


@command(timeout=120.0, outputs=OUTPUTS)
async def revoke(
    frame: Frame,
    peer_id: PeerId,
    yes: Yes = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Take back at once what a peer was given, or gave.

    Of a consumer every right goes, with its namespaces here and their pods. Of a provider this
    cluster's way in goes, with its nodes here. Of both the tunnel goes, and every invitation that
    the peer has used or that is for it alone. Certificates cannot be called back, and have no
    rights afterwards. Those for names with a key never have any again. Those for names as in Liqo
    have none until `generate peering-user --replace-living` lets a consumer with such a name in.
    It says what was removed, and what is still open. `liqod generate peering-user` lets it in
    again, `liqod peer --replace` uses it again.

    \b
    Examples:
      liqod revoke rome
      liqod revoke rome --yes -o json
    """
    typed.cluster(peer_id)
    async with frame.client() as client:
        roles = await roles_of(client, peer_id, liqo_namespace)
        records = await agreements.of_peer(client, liqo_namespace, peer_id, revoking=True)
    shared = [each.line for each in records if each.left]
    frame.confirm(_doomed(peer_id, roles, shared), yes=yes)
    async with frame.client() as client:
        done = await carry_out(client, peer_id, roles, frame.progress, liqo_namespace)
    if frame.show(done):
        return
    for line in done.removed:
        frame.print_text(f"removed: {line}")
    for each in done.lives:
        until = f" until {each.until}" if each.until else ""
        frame.print_text(f"still open: {each.what}{until}")
    frame.print_text(f"{peer_id} is revoked")


def _doomed(peer: str, roles: tuple[str, ...], shared: list[str]) -> str:
    """Says what a revocation removes; of records, only invitations that others could use, too."""
    parts = [*shared]
    if "consumer" in roles:
        parts.append(f"every right that {peer} has here, its namespaces and every pod in them")
    if "invited" in roles:
        parts.append(f"what {peer} has asked or was offered")
    if "provider" in roles:
        parts.append(f"this cluster's way into {peer}, its slices and its nodes")
    return "removes " + ", and ".join(parts)
