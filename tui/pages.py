"""Describes a row in full: the text of ``d``, and the object behind it."""

import msgspec

from liqod.model.view.headline import began, condition, first_failing
from liqod.model.view.rows import NamespaceRow, NodeRow, Pulse
from liqod.model.view.snapshot import GuestSummary
from tui.session import Session
from tui.table import Place, Row
from tui.text import UNKNOWN, rate, round_trip, share, since
from tui.views import inbox, room


class Object(msgspec.Struct, frozen=True):
    """A Kubernetes object of this cluster."""

    kind: str
    name: str
    namespace: str = ""


def behind(place: Place, row: Row | None) -> Object | None:
    """The object behind a row."""
    if place.view == "peer" and place.part not in ("workloads", "guests"):
        return Object("ForeignCluster", place.subject)
    if row is None:
        return None
    if place.view == "peers":
        return Object("ForeignCluster", row.key)
    what, _, rest = row.key.partition(" ")
    if what == "pod":
        namespace, _, name = rest.partition("/")
        return Object("Pod", name, namespace)
    if what == "node":
        return Object("Node", rest)
    if what == "namespace":
        return Object("NamespaceOffloading", "offloading", rest.rpartition(" ")[2])
    return None


def subject(place: Place, key: str, verb: str = "") -> str:
    """The subject of an action on a key: a peer, a namespace, a cluster or an inbox's request.

    Empty where the action is not for such a row.
    """
    if place.view == "inbox":
        direction, _, name = key.partition(" ")
        if verb in ("accept", "deny"):
            return name if direction == inbox.ASKS else ""
        seen = direction not in (inbox.ASKS, inbox.ASKED)
        return "".join(key.split("/")[1:2]) if seen else ""  # plugin/cluster, and the source
    if place.view == "offloaded":
        found = behind(place, Row(key, ()))
        return found.namespace if found is not None else ""
    return key


def describe(session: Session, place: Place, row: Row | None, now: float) -> str:
    """Everything that is known of a row, and why it is as it is."""
    if place.view == "room" and row is not None and (told := room.described(session, row.key, now)):
        return told
    found = behind(place, row)
    if found is None:
        asks = inbox.described(session, row.key) if place.view == "inbox" and row else ""
        return asks or _cells(row)
    state = session.state
    if found.kind == "ForeignCluster":
        return _peer(session, found.name, now)
    if found.kind == "Pod":
        return _pod(session, f"{found.namespace}/{found.name}", now)
    if found.kind == "Node":
        return _node(state.nodes.get(found.name))
    return _namespace(state.namespaces.get(found.namespace))


def _peer(session: Session, name: str, now: float) -> str:
    state = session.state
    peer = state.peers.get(name)
    if peer is None:
        return "this peer is gone"
    pulse = state.pulses.get(name) or Pulse()
    how = condition(peer, pulse, now)
    lasting = since(began(peer, pulse, how), now)
    failing = first_failing(state.ladders.get(name))
    lines = [f"{name} is {how}{f' for {lasting}' if lasting else ''}"]
    if failing is not None:
        lines += [f"  first failing layer: {failing.title}", f"  evidence: {failing.evidence}"]
        lines += [f"  to do: {failing.remedy}"] if failing.remedy else []
    if peer.failure:
        lines.append(f"  its task fails: {peer.failure}")
    lines += _labelled(
        ("role", f"{peer.role} of this cluster" if peer.role else ""),
        ("API server", " ".join(filter(None, (peer.server, peer.version)))),
        ("link", f"{peer.link}{f': {peer.reason}' if peer.reason else ''}"),
        ("last heard of", f"{since(pulse.heard, now)} ago" if pulse.heard else "never"),
        ("round trip", f"{round_trip(pulse.p50)}, 95 % within {round_trip(pulse.p95)}"),
        ("lost probes", share(pulse.loss)),
        ("a change crosses in", round_trip(pulse.lag)),
        ("changes waiting", str(pulse.backlog)),
        ("traffic", f"{rate(pulse.sent)} out, {rate(pulse.received)} in"),
        ("pods", f"{peer.pods_out} out, {peer.pods_in} in"),
        ("pod network", peer.pod_network),
        ("certificate", _days(peer.certificate_days)),
        ("namespace here", peer.tenant_namespace),
    )
    for resource, amount in sorted(peer.quota.items()):
        waits = f", {amount.waits} waiting there" if amount.waits else ""
        lines.append(f"  {resource}: {amount.used} of {amount.granted} used{waits}")
    for told in peer.conditions:
        lines.append(f"  {told.type}: {told.status} since {told.since} ({told.message})")
    return "\n".join(lines)


def _pod(session: Session, key: str, now: float) -> str:
    state = session.state
    guest = state.guests.get(key)
    pod = state.pods.get(key)
    if pod is None:
        return "this pod is gone" if guest is None else _guest(guest)
    lines = [f"{key} runs on {pod.node} of {pod.peer}" if pod.ready else f"{key} is not ready"]
    if not pod.ready:
        lines.append(f"  why: {pod.reason or 'its provider has not said'}")
        peer = state.peers.get(pod.peer)
        if peer is not None:
            lines.append(f"  its peer is {condition(peer, state.pulses.get(pod.peer), now)}")
    lines += _labelled(
        ("phase", pod.phase),
        ("node", f"{pod.node} of {pod.peer}"),
        ("address", pod.ip),
        ("made", f"{since(pod.since, now)} ago" if pod.since else ""),
        ("restarts", str(pod.restarts)),
        ("of the DaemonSet", pod.daemon_set),
    )
    return "\n".join(lines)


def _guest(guest: GuestSummary) -> str:
    lines = [f"{guest.namespace}/{guest.name} runs here for {guest.consumer}"]
    lines += _labelled(
        ("phase", guest.phase),
        ("ready", "yes" if guest.ready else "no"),
        ("why", guest.reason),
        ("node", guest.node or "none yet"),
    )
    return "\n".join(lines)


def _node(node: NodeRow | None) -> str:
    if node is None:
        return "this node is gone"
    lines = [f"{node.name} is a virtual node of {node.peer}"]
    lines += _labelled(
        ("ready", "yes" if node.ready else f"no: {node.message}"),
        ("pods", f"{node.pods_ready} of {node.pods} ready"),
    )
    for name in sorted({*node.resources, *node.granted}):
        much, granted = node.resources.get(name, UNKNOWN), node.granted.get(name, "")
        less = f", of {granted} granted" if granted not in ("", much) else ""
        lines.append(f"  {name}: {much}{less}")
    return "\n".join(lines)


def _namespace(row: NamespaceRow | None) -> str:
    if row is None:
        return "this namespace is not offloaded"
    lines = [f"the namespace {row.name} is offloaded"]
    lines += _labelled(
        ("pods may run", row.strategy), ("phase", row.phase), ("there it is", row.remote_name)
    )
    return "\n".join([*lines, *(f"  at {peer}: {how}" for peer, how in row.clusters.items())])


def _cells(row: Row | None) -> str:
    if row is None:
        return "there is no row"
    return "\n".join(cell.text for cell in row.cells if cell.text)


def _labelled(*pairs: tuple[str, str]) -> list[str]:
    """The known values, one on a line."""
    return [f"  {label}: {value}" for label, value in pairs if value and value != UNKNOWN]


def _days(days: float | None) -> str:
    if days is None:
        return ""
    return "has expired" if days <= 0 else f"good for {days:.0f} days"
