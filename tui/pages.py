"""What a row is in full: the text of ``d``, and which object stands behind it."""

from typing import Any

import msgspec

from liqod.model.worst import condition, first_failing
from tui.session import Session
from tui.sheet import Place, Row
from tui.text import clock

TIMES = ("since", "heard", "layer_since", "retry_at")
"""Fields that hold a Unix time; those of Kubernetes' conditions are texts already."""


class Object(msgspec.Struct, frozen=True):
    """A Kubernetes object of this cluster."""

    kind: str
    name: str
    namespace: str = ""


def behind(place: Place, row: Row | None) -> Object | None:
    """The object that a row stands for."""
    if place.view == "peer" and place.part != "workloads":
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


def subject(place: Place, key: str) -> str:
    """Whom an action on a key is about: a peer, a namespace, or a cluster of the inbox."""
    if place.view == "inbox":
        return key.partition("/")[2]
    if place.view == "offloaded":
        found = behind(place, Row(key, ()))
        return found.namespace if found is not None else ""
    return key


def describe(session: Session, place: Place, row: Row | None, now: float) -> str:
    """Everything that is known of a row, and why it is as it is."""
    found = behind(place, row)
    if found is None:
        return _cells(row)
    state = session.state
    if found.kind == "ForeignCluster":
        return _peer(session, found.name, now)
    if found.kind == "Pod":
        return _pod(session, f"{found.namespace}/{found.name}", now)
    if found.kind == "Node":
        return _fields(state.nodes.get(found.name))
    return _fields(state.namespaces.get(found.namespace))


def _peer(session: Session, name: str, now: float) -> str:
    state = session.state
    peer = state.peers.get(name)
    if peer is None:
        return "this peer is gone"
    pulse = state.pulses.get(name)
    failing = first_failing(state.ladders.get(name))
    lines = [f"{name} is {condition(peer, pulse, now)}"]
    if failing is not None:
        lines += [f"first failing layer: {failing.title}", f"  evidence: {failing.evidence}"]
        lines += [f"  to do: {failing.cure}"] if failing.cure else []
    return "\n".join([*lines, "", _fields(peer), "", _fields(pulse)])


def _pod(session: Session, key: str, now: float) -> str:
    state = session.state
    pod = state.pods.get(key)
    if pod is None:
        return "this pod is gone"
    lines = [f"{key} runs on {pod.node} of {pod.peer}" if pod.ready else f"{key} is not ready"]
    if not pod.ready:
        lines.append(f"  why: {pod.reason or 'its provider has not said'}")
        peer = state.peers.get(pod.peer)
        if peer is not None:
            lines.append(f"  its peer is {condition(peer, state.pulses.get(pod.peer), now)}")
    return "\n".join([*lines, "", _fields(pod)])


def _cells(row: Row | None) -> str:
    if row is None:
        return "there is no row"
    return "\n".join(cell.text for cell in row.cells if cell.text)


def _fields(value: Any) -> str:
    """The fields of a struct, one on a line; times as a time of day too."""
    if value is None:
        return ""
    return "\n".join(_lines(msgspec.to_builtins(value), ""))


def _lines(value: dict[str, Any], indent: str) -> list[str]:
    lines = []
    for name, each in value.items():
        if isinstance(each, dict):
            lines += [f"{indent}{name}:", *_lines(each, indent + "  ")]
        elif isinstance(each, (list, tuple)):
            lines.append(f"{indent}{name}:")
            for item in each:
                inner = _lines(item, "    ") if isinstance(item, dict) else [f"    {item}"]
                lines += [f"{indent}  -", *(indent + line for line in inner)]
        elif name in TIMES and isinstance(each, int | float) and each:
            lines.append(f"{indent}{name}: {clock(each)}")
        else:
            lines.append(f"{indent}{name}: {each}")
    return lines
