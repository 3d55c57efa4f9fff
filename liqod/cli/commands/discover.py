"""``discover``: show the clusters that are seen, and what to do about them."""

import time
from collections.abc import Sequence
from typing import Annotated

import typer

from liqod.apimachinery import labels
from liqod.cli import output, typed
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.cli.options import LiqoNamespace, MetAt
from liqod.cli.statustext import quantities
from liqod.errors import ConfigError, Misuse
from liqod.model.view.figures import span
from liqod.model.view.seen import Cluster, Source, clusters

DnsRecords = Annotated[
    str,
    typer.Option(
        metavar="DOMAIN",
        help="Print the DNS records by which others find this cluster in that domain.",
        show_default=False,
    ),
]
SHOWN = 8
"""Digits of a key that are shown."""


@command(within=30.0, daemon=True, outputs=OUTPUTS, get=True)
async def discover(
    frame: Frame,
    cluster: Annotated[str, typer.Argument(help="That cluster only, with each source.")] = "",
    dns_records: DnsRecords = "",
    address: MetAt = None,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Show the clusters that are seen, and what to do about them.

    It shows where, how and since when each is seen, what it offers, and whether it is a peer.

    A sighting is a hint, and peers with nobody. `signed` says that a cluster's announcement is
    signed by the key that it names; only its operator knows if that is the right one.
    `liqod plugins` lists the discovery plugins that are on.

    With --dns-records it prints what makes this cluster be seen by others: the records that an
    administrator puts into the zone of a domain which they name in [plugins.settings.dns-srv].

    \b
    Examples:
      liqod discover
      liqod discover milan
      liqod discover -o json
      liqod discover --dns-records clusters.example.org --address milan.example.org:6446
    """
    if dns_records:
        if cluster:
            raise Misuse("say a cluster, or --dns-records, which is for this one, and not both")
        from liqod.cli import listing  # brings what signs, which is not needed for looking

        places = typed.addresses(address or ())
        await listing.show(frame, typed.domain(dns_records), places, liqo_namespace)
        return
    if cluster:
        typed.cluster(cluster)
    if address:
        raise Misuse("--address is for --dns-records, and nothing else here")
    async with frame.daemon() as viewer:
        _, state = await viewer.snapshot()
    found = clusters(state.sightings.values())
    if cluster:
        found = tuple(each for each in found if each.id == cluster)
        if not found:
            raise ConfigError(
                f"no cluster {cluster} is seen; `liqod discover` lists those that are"
            )
    if frame.show({"clusters": found}):
        return
    if not found:
        off = [p.name for p in state.plugins.values() if p.kind == "discovery" and p.state == "off"]
        more = f"; off are {', '.join(sorted(off))}: see `liqod plugins`" if off else ""
        frame.print_text(f"no cluster is seen{more}")
        return
    text = _one(found[0]) if cluster else _table(found)
    frame.print_text(text, lines=True)


def _table(found: Sequence[Cluster]) -> str:
    now = time.time()
    rows = [
        [
            each.id,
            ", ".join(dict.fromkeys(source.plugin for source in each.sources)),
            next((a for source in each.sources for a in source.addresses), "-"),
            span(now - each.since),
            _who(each),
            "yes" if each.peer else "no",
            quantities(each.offers) or "-",
            each.next or "-",
        ]
        for each in found
    ]
    header = ["CLUSTER", "SEEN BY", "AT", "FOR", "WHO", "PEER", "OFFERS", "NEXT"]
    return output.table(rows, header)


def _who(found: Cluster) -> str:
    """The signature of a cluster, its key, and the proofs of the sources that have seen it."""
    key = f" {found.key[:SHOWN]}" if found.key else ""
    proofs = sorted({source.proof for source in found.sources if source.proof})
    return ", ".join([f"{found.verified}{key}", *proofs])


def _one(found: Cluster) -> str:
    """All that is known of one cluster."""
    now = time.time()
    rows = [
        [
            source.plugin,
            source.where or "-",
            span(now - source.since),
            ", ".join(source.addresses) or "-",
            _signed(source),
        ]
        for source in found.sources
    ]
    lines = [
        f"cluster {found.id}, {_who(found)}",
        f"key {found.key or '-'}",
        f"peer {'yes' if found.peer else 'no'}",
        f"offers {quantities(found.offers) or '-'}",
        f"can do {', '.join(found.capabilities) or '-'}",
        f"next: {found.next or '-'}",
        "",
        output.table(rows, ["SEEN BY", "WHERE", "FOR", "ADDRESSES", "WHO"]),
    ]
    return "\n".join(lines)


def _signed(source: Source) -> str:
    signature = f"signed {source.key[:SHOWN]}" if source.key else source.unverified or "unsigned"
    return f"{signature}, {source.proof}" if source.proof else signature
