"""``liqod status`` as text: problems first, then a table for each kind of thing.

Pure: it is given the overview and the width of the terminal, and wraps what is long.
"""

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from liqod.cli.output import table
from liqod.kube import times
from liqod.model.peering.healthsummary import NO_WEBHOOK, NOT_KNOWN
from liqod.model.text import printable
from liqod.model.view.daemonfacts import SightingFacts
from liqod.model.view.figures import counted, span
from liqod.model.view.headline import NO_PEERS
from liqod.model.view.overview import Detail, Overview
from liqod.model.view.problems import Problem, since_text
from liqod.model.view.rows import PeerRow
from liqod.model.view.seen import clusters
from liqod.model.view.serviceanswer import ServicesRow

if TYPE_CHECKING:
    from liqod.cli.report import Live, LivePeer

ROLES = {"ConsumerAndProvider": "Both"}
"""A shorter word for a role."""
LIVE = ["RTT", "HEARD", "WAITING"]
MOST_SEEN = 20
"""Clusters that are seen, of which there may be a thousand, that ``status`` shows."""
UP = ("up", "-", NOT_KNOWN)
NO_NETWORK = (
    "pod network none: pods have no address here that leads to the peer.\n"
    "`liqod peer --remote-kubeconfig FILE`, with an administrator's of it, joins the\n"
    "networks; where they are one anyway, pod_network = routed with pod_cidrs says so"
)
FIRST = (
    "`liqod peer` makes the first, with an invitation (`liqod invite` there),\n"
    "a cluster that is seen (`liqod discover`), or --remote-kubeconfig FILE"
)
POD_NETWORKS = ("routed", "tunnel")
WEBHOOK = ("reachable", "not proved yet", NO_WEBHOOK)
"""States of the webhook that are no problem; any other is reported among the problems."""


def render(view: Overview, width: int = 0, *, now: float, live: "Live | None" = None) -> str:
    """The overview as text.

    Args:
        view: what to show.
        width: columns of the terminal; 0 means any number.
        now: Unix time, against which ages are shown.
        live: what the running daemon says; None where it was not asked.
    """
    webhook = view.webhook if view.webhook in WEBHOOK else "not reachable"
    parts = [f"cluster {view.cluster_id}: daemon {view.daemon}\nwebhook {webhook}{_own(view)}"]
    says_well = live is not None and live.well and not view.well
    if live is not None and not (says_well or (live.sentence == NO_PEERS and view.knows_peers)):
        parts.append(live.sentence)
    if view.problems:
        lines = [_problem(problem, width, now) for problem in view.problems]
        parts.append("problems, worst first:\n" + "\n".join(lines))
    if view.peers:
        parts += _peers(view.peers, width, live)
    elif view.knows_peers:
        parts.append(f"{NO_PEERS}: {FIRST}")
    if any(row.pod_network == "none" for row in view.peers):
        parts.append(NO_NETWORK)
    if view.nodes:
        parts.append(_nodes(view, width))
    if view.namespaces:
        parts.append(_namespaces(view, width))
    if view.guests:
        parts.append(_guests(view, width))
    if view.services is not None:
        parts.append(_services(view.services))
    if live is not None and (unpeered := [row for row in live.seen if not row.peered]):
        parts.append(seen_clusters(unpeered, width))
    if view.detail is not None:
        parts += [f"words, when they met: {row.words}" for row in view.peers if row.words]
        daemon = next((row.daemon for row in view.peers), "-")
        parts += _detail(view.detail, width, now, daemon)
    return printable("\n\n".join(parts), lines=True) + "\n"


def _own(view: Overview) -> str:
    """This cluster's key, and where others meet its daemon, as far as that is known."""
    key = f"\nkey {view.key}" if view.key else ""
    return f"{key}\nmet at {view.met_at.replace(',', ', ')}" if view.met_at else key


def _problem(problem: Problem, width: int, now: float) -> str:
    mark = "·" if problem.hint else "!"
    whose = f"[{problem.peer}] " if problem.peer else ""
    text = printable(f"{whose}{problem.what}{since_text(problem, now)} → {problem.remedy}")
    if not width:
        return f"  {mark} {text}"
    return textwrap.fill(
        text, width, initial_indent=f"  {mark} ", subsequent_indent="    ", break_on_hyphens=False
    )


def _peers(peers: Sequence[PeerRow], width: int, live: "Live | None") -> list[str]:
    """The peers as one table; in a narrow terminal a second one has what the daemon adds."""
    header = ["PEER", "ROLE", "STATE", "API", "POD NETWORK", "OUT", "IN", "CERTIFICATE", "MET BY"]
    rows = [_peer(row) for row in peers]
    if live is None:
        return [table(rows, header, width=width)]
    figures = [_live(live.peers.get(row.id)) for row in peers]
    both = [[*row, *more] for row, more in zip(rows, figures, strict=True)]
    whole = table(both, header + LIVE, width=width)
    if not width or max(map(len, whole.splitlines())) <= width:
        return [whole]
    named = [[row.id, *more] for row, more in zip(peers, figures, strict=True)]
    return [table(rows, header, width=width), table(named, ["PEER", *LIVE], width=width)]


def _peer(row: PeerRow) -> list[str]:
    return [
        row.id,
        ROLES.get(row.role, row.role),
        row.state,
        row.api if row.api in UP else "down",
        row.pod_network if row.pod_network in POD_NETWORKS else "none",
        str(row.pods_out),
        str(row.pods_in),
        "-" if row.certificate_days is None else f"{row.certificate_days:g} d",
        row.met,
    ]


def _live(row: "LivePeer | None") -> list[str]:
    """The columns that only a running daemon can fill."""
    if row is None:
        return ["-", "-", "-"]
    rtt = "-" if row.rtt is None else f"{1000 * row.rtt:.1f} ms"
    heard = "-" if row.silence is None else f"{row.silence:.0f} s ago"
    return [rtt, heard, str(row.backlog)]


def _nodes(view: Overview, width: int) -> str:
    rows = [
        [
            row.name,
            row.peer,
            "Ready" if row.ready else "NotReady",
            f"{row.pods_ready}/{row.pods}"
            + (f", {row.pods_waiting} waiting there" if row.pods_waiting else ""),
            *(row.resources.get(name, "-") for name in ("cpu", "memory", "pods")),
        ]
        for row in view.nodes
    ]
    header = ["VIRTUAL NODE", "PEER", "STATUS", "PODS READY", "CPU", "MEMORY", "PODS"]
    return table(rows, header, width=width)


def _namespaces(view: Overview, width: int) -> str:
    rows = [
        [
            row.name,
            row.strategy,
            row.phase,
            row.remote_name,
            ", ".join(f"{peer}: {state}" for peer, state in sorted(row.clusters.items())) or "-",
        ]
        for row in view.namespaces
    ]
    return table(rows, ["NAMESPACE", "STRATEGY", "PHASE", "NAME THERE", "PEERS"], width=width)


def seen_clusters(rows: Sequence[SightingFacts], width: int) -> str:
    """Clusters that discovery sees, and that are no peers (yet), as a table.

    Args:
        rows: what is seen.
        width: of the terminal, in columns.
    """
    found = clusters(rows)
    cells = [
        [
            each.id,
            ", ".join(dict.fromkeys(source.plugin for source in each.sources)),
            each.verified,
            each.next or "-",
        ]
        for each in found[:MOST_SEEN]
    ]
    more = len(found) - MOST_SEEN
    text = table(cells, ["SEEN", "BY", "WHO", "NEXT"], width=width)
    return f"{text}\nand {more} more: `liqod discover` lists them" if more > 0 else text


def _services(row: ServicesRow) -> str:
    """The Services of the set, as a line, and a line for each peer."""
    lines = [f"Services of the set: {row.exports} exported, {row.imports} imported"]
    for each in row.peers:
        of = counted(each.namespaces, "namespace")
        lines.append(f"  {each.peer}: {each.told} told it of {of}, {each.heard} told by it")
    return "\n".join(lines)


def _guests(view: Overview, width: int) -> str:
    rows = [
        [
            row.consumer or "-",
            row.namespace,
            f"{row.ready}/{row.pods}",
            ", ".join(f"{count} {phase}" for phase, count in row.phases.items()),
            row.why or "-",
        ]
        for row in view.guests
    ]
    return table(rows, ["GUESTS OF", "NAMESPACE HERE", "READY", "PHASES", "WHY"], width=width)


def _detail(detail: Detail, width: int, now: float, daemon: str) -> list[str]:
    """The sections that only one peer's status has."""
    server = detail.server or "-: nothing is borrowed there"
    runs = {"up": "runs", "-": "not known: not seen yet, or not shown"}.get(daemon, daemon)
    parts = [f"API server {server}\nits daemon {runs}\ntenant namespace {detail.namespace or '-'}"]
    if detail.slices:
        rows = [
            [
                row.name,
                row.direction,
                row.authentication or "waiting",
                (row.resources or "waiting") + (", cordoned" if row.cordoned else ""),
                row.why or quantities(row.granted or row.asked),
            ]
            for row in detail.slices
        ]
        header = ["SLICE", "DIRECTION", "IDENTITY", "RESOURCES", "QUANTITIES"]
        parts.append(table(rows, header, width=width))
    if detail.conditions:
        rows = [
            [row.type, row.status, age(row.since, now), row.message or "-"]
            for row in detail.conditions
        ]
        parts.append(table(rows, ["CONDITION", "STATUS", "FOR", "MESSAGE"], width=width))
    if detail.certificates:
        rows = [[name, f"{days:g} d"] for name, days in detail.certificates.items()]
        parts.append(table(rows, ["CERTIFICATE", "GOOD FOR"], width=width))
    if detail.waiting:
        rows = [
            [f"{pod.namespace}/{pod.name}", pod.node, pod.phase, pod.why or "-"]
            for pod in detail.waiting
        ]
        parts.append(table(rows, ["WAITING POD", "NODE", "PHASE", "WHY"], width=width))
    return parts


def age(since: str, now: float) -> str:
    """How long something has been as it is, from the time of its last change."""
    return span(max(now - times.seconds(since), 0.0)) if since else "-"


def quantities(amounts: dict[str, str]) -> str:
    """Quantities in a line, such as ``cpu 4, memory 8Gi``."""
    return ", ".join(f"{name} {amount}" for name, amount in sorted(amounts.items())) or "-"
