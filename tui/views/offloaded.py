"""The view of offloaded work: virtual nodes, the namespaces on them, and the pods in those."""

from collections import defaultdict

from liqod.model.view.rows import NodeRow, PodRow
from tui import text
from tui.marks import yes_no
from tui.session import Session
from tui.table import Cell, Column, Place, Row, Table, Tone

COLUMNS = (
    Column("NODE / NAMESPACE / POD", most=56),
    Column("READY", right=True),
    Column("PHASE"),
    Column("PEER", rank=3),
    Column("RESTARTS", rank=4, right=True),
    Column("AGE", rank=2, right=True),
    Column("IP", rank=5),
    Column("WHY", rank=1, most=0),
)
Pods = dict[str, list[tuple[str, PodRow]]]
"""Keys and rows by namespace."""


def build(session: Session, place: Place, now: float) -> Table:
    """The tree of one node, where the place names one, or of all of them."""
    return tree(session, now, node=place.subject)


def of_peer(session: Session, peer: str, now: float) -> Table:
    """The tree of one peer's nodes."""
    return tree(session, now, peer=peer)


def tree(session: Session, now: float, *, node: str = "", peer: str = "") -> Table:
    """Nodes, namespaces and pods, each below what it is in; nodes that are not ready first."""
    state = session.state
    placed: dict[str, Pods] = defaultdict(lambda: defaultdict(list))
    for key, pod in sorted(state.pods.items()):
        placed[pod.node][pod.namespace].append((key, pod))
    rows: list[Row] = []
    for name, each in sorted(state.nodes.items(), key=lambda item: (item[1].ready, item[0])):
        if node in ("", name) and peer in ("", each.peer):
            rows.append(_node(each))
            rows += _pods(each, placed.get(name, {}), now)
    rows += _idle(session, placed) if not node and not peer else []
    return Table(
        COLUMNS,
        tuple(rows),
        empty="no virtual nodes: `liqod peer` borrows some, `liqod offload` fills them",
    )


def _node(node: NodeRow) -> Row:
    resources = " ".join(f"{name} {value}" for name, value in sorted(node.resources.items()))
    cells = (
        Cell(text.clean(node.name), "name"),
        Cell(f"{node.pods_ready}/{node.pods}", "", node.pods_ready),
        yes_no(node.ready, "Ready" if node.ready else "NotReady"),
        Cell(text.clean(node.peer)),
        Cell(),
        Cell(),
        Cell(),
        Cell(text.clean(resources if node.ready else node.message), "dim" if node.ready else "bad"),
    )
    return Row(f"node {node.name}", cells, Place("offloaded", node.name))


def _pods(node: NodeRow, namespaces: Pods, now: float) -> list[Row]:
    rows = []
    for namespace, pods in namespaces.items():
        ready = sum(pod.ready for _, pod in pods)
        cells = (
            Cell(f"  {text.clean(namespace)}"),
            Cell(f"{ready}/{len(pods)}", "", ready),
            *(Cell() for _ in COLUMNS[2:]),
        )
        rows.append(Row(f"namespace {node.name} {namespace}", cells, child=True))
        rows += [_pod(key, pod, now) for key, pod in pods]
    return rows


def _pod(key: str, pod: PodRow, now: float) -> Row:
    done = pod.phase == "Succeeded"
    tone: Tone = "dim" if done else "" if pod.ready else "bad" if pod.phase == "Failed" else "fair"
    cells = (
        Cell(f"    {text.clean(pod.name)}", tone),
        Cell("✓" if pod.ready else "·" if done else "✗", "good" if pod.ready else tone),
        Cell(text.clean(pod.phase), tone),
        Cell(text.clean(pod.peer)),
        Cell(str(pod.restarts) if pod.restarts else "", "fair", pod.restarts),
        Cell(text.since(pod.since, now), "dim", now - pod.since),
        Cell(text.clean(pod.ip), "dim"),
        Cell(text.clean(pod.reason), tone),
    )
    return Row(f"pod {key}", cells, Place("pod", key), child=True)


def _idle(session: Session, placed: dict[str, Pods]) -> list[Row]:
    """Offloaded namespaces without a pod on any virtual node, and what keeps them."""
    busy = {namespace for namespaces in placed.values() for namespace in namespaces}
    rows = []
    for name, row in sorted(session.state.namespaces.items()):
        waits = {peer: why for peer, why in row.clusters.items() if why != "ready"}
        if name in busy and not waits:
            continue
        why = "; ".join(f"{peer}: {reason}" for peer, reason in sorted(waits.items()))
        cells = (
            Cell(f"{name} (namespace)"),
            Cell(),
            Cell(text.clean(row.phase), "fair" if waits else ""),
            *(Cell() for _ in range(4)),
            Cell(text.clean(why) or "no pods on virtual nodes", "fair" if waits else "dim"),
        )
        rows.append(Row(f"namespace {name}", cells))
    return rows
