"""Answers the requests of the inspector's clients beside the stream of changes."""

import codecs
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import trio
import yaml

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, NODES, PODS, Kind
from liqod.cluster.context import ClusterContext
from liqod.inspect import metrichistory, settings, tasktree
from liqod.inspect.access import Guest
from liqod.inspect.actions import Actions
from liqod.inspect.components import Components
from liqod.inspect.memoryfacts import FactsInMemory
from liqod.inspect.metrichistory import Histories
from liqod.inspect.protocol import (
    Act,
    ActionPlan,
    ActionProgress,
    Examine,
    ExplainPod,
    Findings,
    GetHistory,
    GetLogs,
    GetObject,
    GetProgram,
    GetTasks,
    InspectorRequest,
    Metrics,
    Preview,
    ProgramReport,
    RequestDone,
    RequestError,
    Series,
    ServerMessage,
    Tasks,
    Text,
)
from liqod.kube.client import Client
from liqod.model.view.podanswer import pod_lines
from liqod.model.view.redact import redact
from liqod.procedures import explaining
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    RESOURCE_SLICES,
    SHADOW_PODS,
    TENANTS,
    VIRTUAL_NODES,
)
from liqod.runtime import programinfo
from liqod.telemetry import registry

if TYPE_CHECKING:
    from liqod.inspect.doctor import Doctor

SHOWN: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        *(FOREIGN_CLUSTERS, IDENTITIES, NAMESPACE_MAPS, NAMESPACE_OFFLOADINGS, RESOURCE_SLICES),
        *(SHADOW_PODS, TENANTS, VIRTUAL_NODES, NAMESPACES, NODES, PODS),
    )
}
"""The kinds of objects that may be requested: none that holds secrets of others."""
STEPS = 16
CHUNK = 65536
"""Characters of a log in one message."""

log = logging.getLogger(__name__)

Tell = Callable[[ServerMessage], Awaitable[None]]
Answer = Callable[[Any, Guest, Tell], Awaitable[None]]


class Answers:
    """Answers requests of clients.

    Args:
        histories: past figures.
        facts: the newest figures.
        doctor: the findings on each layer.

    Attributes:
        cluster_uid: as :func:`liqod.cluster.ownid.cluster_uid`; empty while unknown.
    """

    def __init__(
        self,
        context: ClusterContext,
        components: Components,
        histories: Histories,
        facts: FactsInMemory,
        doctor: "Doctor",
    ) -> None:
        self.cluster_id = context.cluster_id
        self.cluster_uid = ""
        self.server = context.client.server
        self.started = facts.daemon.started
        self._context, self._components = context, components
        self._registry = registry.current()
        self._histories = histories
        self._facts = facts
        self._doctor = doctor
        self._snapshots = tasktree.TaskObserver()
        self._actions = Actions(context, components, doctor)
        self._explaining = trio.CapacityLimiter(1)
        """An explanation reads all pods of the cluster."""
        self.verbs = self._actions.verbs
        self._by_type: dict[type[Any], Answer] = {
            GetHistory: self._history,
            GetTasks: self._tasks,
            GetProgram: self._program,
            Examine: self._examine,
            GetObject: self._object,
            GetLogs: self._logs,
            ExplainPod: self._explain,
            Preview: self._preview,
            Act: self._act,
        }

    async def answer(self, request: InspectorRequest, guest: Guest, reply: Tell) -> None:
        """Answer one request. Raises RequestError or LiqodError."""
        await self._by_type[type(request)](request, guest, reply)

    async def _history(self, ask: GetHistory, guest: Guest, reply: Tell) -> None:
        metrics = metrichistory.PEER if ask.peer else metrichistory.DAEMON
        if not ask.metric:
            await reply(
                Metrics(
                    id=ask.id, peer=_helps(metrichistory.PEER), daemon=_helps(metrichistory.DAEMON)
                )
            )
            return
        if ask.metric not in metrics and not ask.peer and ask.metric in metrichistory.PEER:
            raise RequestError("missing", f"{ask.metric} is a peer's: say whose (--peer)")
        if ask.metric not in metrics:
            raise RequestError("missing", f"there is no metric {ask.metric}: {', '.join(metrics)}")
        try:
            found = self._histories.of(ask.peer)
        except KeyError:
            raise RequestError("missing", _no_peer(ask.peer)) from None
        step, values = found.series(ask.metric, ask.span)
        unit = metrics[ask.metric].unit
        await reply(
            Series(
                id=ask.id,
                metric=ask.metric,
                unit=unit,
                peer=ask.peer,
                end=self._histories.at,
                step=step,
                values=values,
            )
        )

    async def _tasks(self, ask: GetTasks, guest: Guest, reply: Tell) -> None:
        began = time.process_time()
        lags = self._facts.lags
        found = Tasks(
            id=ask.id,
            tasks=await self._snapshots.tasks(),
            queues=tasktree.queues(self._registry),
            watches=tasktree.watches(self._registry),
            traffic=tasktree.traffic(self._context.client, self._components),
            lag=(lags[-1], max(lags)) if lags else (0.0, 0.0),
            took=round(time.process_time() - began, 4),
        )
        await reply(found)

    async def _program(self, ask: GetProgram, guest: Guest, reply: Tell) -> None:
        program = await trio.to_thread.run_sync(programinfo.look)
        shown = settings.shown(self._context.config)
        await reply(ProgramReport(id=ask.id, program=program, settings=shown))

    async def _examine(self, ask: Examine, guest: Guest, reply: Tell) -> None:
        if ask.probe:
            _must_act(guest)
            await self._doctor.probe(ask.peer)
        else:
            await self._doctor.look(ask.peer)
        ladders = self._doctor.ladders
        if ask.peer and ask.peer not in ladders:
            raise RequestError("missing", _no_peer(ask.peer))
        wanted = ("", ask.peer) if ask.peer else sorted(ladders)
        await reply(Findings(id=ask.id, ladders=tuple(ladders[name] for name in wanted)))

    async def _object(self, ask: GetObject, guest: Guest, reply: Tell) -> None:
        kind = SHOWN.get(ask.kind)
        if kind is None:
            raise RequestError("invalid", f"{ask.kind} is not shown; {', '.join(sorted(SHOWN))}")
        client, namespace = self._context.client, ask.namespace
        if ask.peer:
            client, namespace = self._there(ask.peer, ask.namespace)
        found = await client.find(kind, ask.name, namespace if kind.namespaced else None)
        shared = " that is offloaded or a guest" if kind is PODS else ""
        if found is None or (shared and not self._is_shared(found)):
            where = f"{namespace}/{ask.name}" if kind.namespaced else ask.name
            raise RequestError("missing", f"there is no {ask.kind} {where}{shared}")
        await reply(Text(id=ask.id, text=yaml.safe_dump(redact(found), sort_keys=False)))

    def _is_shared(self, pod: dict[str, Any]) -> bool:
        """True if a pod concerns liqod: on a virtual node, or made for a consumer.

        The right to look at liqod does not include the right to look at every pod.
        """
        made_by = (pod["metadata"].get("labels") or {}).get(labels.MANAGED_BY)
        return made_by == labels.MANAGED_BY_SHADOW_POD or bool(self._peer_of(pod))

    def _peer_of(self, pod: dict[str, Any]) -> str:
        """The peer of a pod's virtual node; empty if it is on none."""
        node = pod["spec"].get("nodeName", "")
        borrowing = self._components.borrowing()
        return next((name for name, each in borrowing.items() if node in each.engine.nodes), "")

    def _there(self, peer: str, namespace: str) -> tuple[Client, str]:
        """A client for a peer, and the namespace there that a local one is mapped to."""
        borrowing = self._components.borrowing().get(peer)
        remote = borrowing.remotes.any_slice() if borrowing is not None else None
        if borrowing is None or remote is None:
            raise RequestError("missing", f"nothing is borrowed from {peer}")
        mapped = borrowing.engine.names(namespace).remote_namespace
        if not mapped:
            raise RequestError("missing", f"the namespace {namespace} is not mapped at {peer}")
        return remote.client, mapped

    async def _logs(self, ask: GetLogs, guest: Guest, reply: Tell) -> None:
        _must_act(guest)
        pod = await self._context.client.find(PODS, ask.pod, ask.namespace)
        if pod is None:
            raise RequestError("missing", f"there is no pod {ask.namespace}/{ask.pod}")
        peer = self._peer_of(pod)
        if not peer:
            node = pod["spec"].get("nodeName") or "no node"
            raise RequestError("invalid", f"the pod is not on a peer but on {node}")
        client, namespace = self._there(peer, ask.namespace)
        query = {"tailLines": str(min(max(ask.tail, 0), 10_000))}
        query |= {"container": ask.container} if ask.container else {}
        query |= {"follow": "true"} if ask.follow else {}
        query |= {"previous": "true"} if ask.previous else {}
        path = PODS.path(namespace, ask.pod, "log")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        async with client.stream("GET", path, query=query) as chunks:
            async for chunk in chunks:
                text = decoder.decode(chunk)
                for start in range(0, len(text), CHUNK):
                    piece = text[start : start + CHUNK]
                    await reply(Text(id=ask.id, text=piece, last=False))
        await reply(Text(id=ask.id, text=""))

    async def _explain(self, ask: ExplainPod, guest: Guest, reply: Tell) -> None:
        _must_act(guest)
        client, own, namespace = self._context.client, self._context.namespace, ask.namespace
        name = labels.NAMESPACE_OFFLOADING_NAME
        if await client.find(NAMESPACE_OFFLOADINGS, name, namespace) is None:
            raise RequestError("missing", f"the namespace {namespace} is not offloaded")
        async with self._explaining:
            pod = await explaining.read(client, PODS, ask.pod, namespace)
            answer = await explaining.explain(client, pod, namespace, own)
        await reply(Text(id=ask.id, text="\n".join(pod_lines(answer))))

    async def _preview(self, ask: Preview, guest: Guest, reply: Tell) -> None:
        outline = await self._actions.plan(ask.verb, ask.subject, ask.options)
        await reply(
            ActionPlan(
                id=ask.id,
                verb=ask.verb,
                subject=ask.subject,
                changes=outline.changes,
                destructive=outline.destructive,
                command=outline.command,
            )
        )

    async def _act(self, ask: Act, guest: Guest, reply: Tell) -> None:
        _must_act(guest)
        log.info("asked to act", extra={"user": guest.user, "do": f"{ask.verb} {ask.subject}"})
        send, steps = trio.open_memory_channel[str](STEPS)

        async def show() -> None:
            async for step in steps:
                await reply(ActionProgress(id=ask.id, step=str(step)))

        def progress(step: str) -> None:
            with suppress(trio.WouldBlock):  # a slow client misses a step
                send.send_nowait(step)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(show)
            with send:
                text = await self._actions.do(ask.verb, ask.subject, ask.options, progress)
        await reply(RequestDone(id=ask.id, text=text))


def _must_act(guest: Guest) -> None:
    """Raise RequestError for a client that may only look."""
    if not guest.acting:
        raise RequestError("forbidden", f"{guest.user} may look, not act")


def _helps(metrics: Any) -> dict[str, str]:
    return {name: metric.help for name, metric in metrics.items()}


def _no_peer(name: str) -> str:
    return f"there is no peer {name}; `liqod status` lists them"
