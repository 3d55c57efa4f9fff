"""Plans and executes the actions that viewers request: each plan first lists the changes.

Every action equals a command line, by the same functions and with the daemon's own rights;
the plan names that command line.
"""

import shlex
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from liqod.apimachinery.kinds import NAMESPACES
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.discovery.configuredpeering import peer_with
from liqod.errors import ConfigError, TransientError
from liqod.handshake.requests import policies
from liqod.inspect.components import Components
from liqod.inspect.doctor import Doctor
from liqod.inspect.protocol import RequestError
from liqod.model.crossing.exclusions import namespace_stays
from liqod.model.objects.requirements import node_selector
from liqod.procedures import answering, onehalf, unpeering
from liqod.procedures.offload import NAME, present, remote_namespaces, spread
from liqod.procedures.tenantstate import find_tenant, lent_to, set_condition
from liqod.resources import NAMESPACE_OFFLOADINGS, IncomingPeering
from liqod.runtime.progress import Progress

Options = dict[str, str]

LESS = ("cpu", "memory", "pods")
"""Resources that may be granted in part, by the names of options."""
FLAGS = ("always", "replace")
WITHIN = 10.0
"""Seconds in which the daemon applies a decision; it is written in any case."""
STRATEGIES = ("Local", "Remote", "LocalAndRemote")
OPTIONS = {
    "offload": ("strategy", "selector"),
    "unpeer": ("forget",),
    "accept": (*LESS, *FLAGS),
    "deny": ("always",),
}
"""The options of each verb that has some."""
CONDITIONS = {"cordon": "Cordoned", "uncordon": "Active", "activate": "Active", "drain": "Drained"}


class Outline(NamedTuple):
    """The plan of an action: the changes, the presence of deletions, the command line."""

    changes: tuple[str, ...]
    destructive: bool
    command: str


Plan = Callable[[str, str, Options], Awaitable[Outline]]
Do = Callable[[str, str, Options, Progress], Awaitable[str]]


class Actions:
    """Plans and executes actions.

    Args:
        doctor: repeats checks.
    """

    def __init__(self, context: ClusterContext, components: Components, doctor: Doctor) -> None:
        self._context, self._components = context, components
        self._client = context.client
        self._doctor = doctor
        self._decisions = Decisions(context, components)
        tenant = (self._plan_tenant, self._do_tenant)
        self._verbs: dict[str, tuple[Plan, Do]] = {
            "peer": (self._plan_peer, self._do_peer),
            "probe": (self._plan_probe, self._do_probe),
            "offload": (self._plan_offload, self._do_offload),
            "unoffload": (self._plan_unoffload, self._do_unoffload),
            "unpeer": (self._plan_unpeer, self._do_unpeer),
            **dict.fromkeys(("accept", "deny"), (self._plan_answer, self._decisions.do)),
            **dict.fromkeys(CONDITIONS, tenant),
        }

    @property
    def verbs(self) -> tuple[str, ...]:
        """Names of all actions."""
        return tuple(self._verbs)

    async def plan(self, verb: str, subject: str, options: Options) -> Outline:
        """The plan of an action. Raises RequestError or LiqodError."""
        return await self._resolve(verb, options)[0](verb, subject, options)

    async def do(self, verb: str, subject: str, options: Options, progress: Progress) -> str:
        """Execute an action; one sentence about the outcome. Raises RequestError or LiqodError."""
        return await self._resolve(verb, options)[1](verb, subject, options, progress)

    def _resolve(self, verb: str, options: Options) -> tuple[Plan, Do]:
        found = self._verbs.get(verb)
        if found is None:
            raise RequestError("unknown", f"this daemon cannot {verb}; use the command line")
        known = OPTIONS.get(verb, ())
        for name in options:
            if name not in known:
                there = f"it has {' and '.join(known)}" if known else "it has none"
                raise RequestError("invalid", f"{verb} has no option {name}; {there}")
        return found

    async def _plan_peer(self, verb: str, cluster: str, options: Options) -> Outline:
        context, path = self._introduced(cluster)
        asked = context.config.peer(cluster).resources
        what = ", ".join(f"{name} {text}" for name, text in sorted(asked.items()))
        flags = [f"--resource={name}={text}" for name, text in sorted(asked.items())]
        command = shlex.join(["liqod", "peer", "--remote-kubeconfig", str(path), *flags])
        change = f"asks {cluster} for {what or 'what it grants by default'}, as a node here"
        return Outline((change,), False, command)

    async def _do_peer(self, verb: str, cluster: str, options: Options, progress: Progress) -> str:
        context, path = self._introduced(cluster)
        await peer_with(context, cluster, path, progress)
        return f"peered: {cluster} is a node here"

    def _introduced(self, cluster: str) -> tuple[ClusterContext, Path]:
        """This cluster with its current configuration, and a kubeconfig for peering."""
        discovery = self._components.discovery
        if discovery is None:
            raise RequestError("missing", f"no cluster {cluster} was seen")
        seen = discovery.seen(cluster)
        if seen is None:
            raise RequestError("missing", f"no cluster {cluster} was seen")
        if seen.kubeconfig:
            return discovery.context, Path(seen.kubeconfig)
        remedy = "`liqod peer --remote-kubeconfig FILE` brings them"
        raise RequestError("missing", f"{cluster} was seen without credentials; {remedy}")

    async def _plan_probe(self, verb: str, peer: str, options: Options) -> Outline:
        what = "looks at every layer now, and tries a write that changes nothing"
        return Outline((what,), False, f"liqod doctor {peer} --probe".replace("  ", " "))

    async def _do_probe(self, verb: str, peer: str, options: Options, progress: Progress) -> str:
        progress(f"probe {peer or 'every peer'}")
        await self._doctor.probe(peer)
        return "looked at every layer"

    async def _plan_offload(self, verb: str, namespace: str, options: Options) -> Outline:
        asked = _requested_spec(options)
        found = await self._client.find(NAMESPACES, namespace, decode=Partial)
        if found is None:
            raise RequestError("missing", f"there is no namespace {namespace}")
        stays = namespace_stays(namespace, found.metadata.labels, self._context.namespace)
        if stays:
            raise RequestError("invalid", stays)
        spec = {**await present(self._client, namespace), **asked}
        strategy, selector = spec["podOffloadingStrategy"], options.get("selector", "")
        where = f"{_where(strategy)} with {selector}" if selector else _where(strategy)
        command = f"liqod offload namespace {namespace} --pod-offloading-strategy {strategy}"
        return Outline(
            (f"pods of {namespace} may run {where}; its objects follow them",),
            False,
            f"{command} --selector {shlex.quote(selector)}" if selector else command,
        )

    async def _do_offload(
        self, verb: str, namespace: str, options: Options, progress: Progress
    ) -> str:
        await self._plan_offload(verb, namespace, options)
        progress(f"record that {namespace} is offloaded")
        await spread(self._client, namespace, _requested_spec(options))
        return f"{namespace} is recorded as offloaded"

    async def _plan_unoffload(self, verb: str, namespace: str, options: Options) -> Outline:
        found = await self._client.find(NAMESPACE_OFFLOADINGS, NAME, namespace)
        if found is None:
            raise RequestError("missing", f"{namespace} is not offloaded")
        doomed = f"deletes {remote_namespaces(found)}, with every pod and object in it"
        return Outline((doomed,), True, f"liqod unoffload namespace {namespace} --yes")

    async def _do_unoffload(
        self, verb: str, namespace: str, options: Options, progress: Progress
    ) -> str:
        await self._plan_unoffload(verb, namespace, options)
        progress(f"bring {namespace} back")
        await self._client.delete(NAMESPACE_OFFLOADINGS, NAME, namespace)
        return f"{namespace} comes back; the peers remove theirs"

    async def _plan_unpeer(self, verb: str, peer: str, options: Options) -> Outline:
        doomed = await onehalf.plan(self._client, peer)
        if not doomed:
            raise RequestError("missing", f"there is no peer {peer}")
        forget = " --forget" if options.get("forget") == "true" else ""
        kept = (await unpeering.half(self._client, peer)).summary(peer)
        changes = (*(f"deletes {each}" for each in doomed), *filter(None, (kept,)))
        return Outline(changes, True, f"liqod unpeer {peer} --yes{forget}")

    async def _do_unpeer(self, verb: str, peer: str, options: Options, progress: Progress) -> str:
        await self._plan_unpeer(verb, peer, options)
        if options.get("forget") == "true":
            await unpeering.forget(self._client, peer, progress=progress)
        end = await unpeering.unpeer(self._client, peer, progress=progress)
        return end.summary(peer)

    async def _plan_tenant(self, verb: str, consumer: str, options: Options) -> Outline:
        tenant = await self._tenant(consumer)
        command = f"liqod {verb} tenant {consumer}"
        if verb != "drain":
            state = CONDITIONS[verb].lower()
            return Outline((f"the tenant {consumer} becomes {state}",), False, command)
        lent = await lent_to(self._client, consumer, tenant["metadata"]["namespace"])
        changes = tuple(f"deletes {each}" for each in lent) or ("nothing is lent to it",)
        return Outline(changes, True, f"{command} --yes")

    async def _do_tenant(
        self, verb: str, consumer: str, options: Options, progress: Progress
    ) -> str:
        tenant = await self._tenant(consumer)
        progress(f"set the tenant {consumer} to {CONDITIONS[verb]}")
        await set_condition(self._client, tenant, CONDITIONS[verb])
        return f"the tenant {consumer} is {CONDITIONS[verb].lower()}"

    async def _plan_answer(self, verb: str, who: str, options: Options) -> Outline:
        changes = await self._decisions.changes(verb, who, options)
        return Outline(changes, False, self._decisions.command(verb, who, options))

    async def _tenant(self, consumer: str) -> dict[str, dict[str, str]]:
        try:
            return await find_tenant(self._client, consumer)
        except ConfigError as error:
            raise RequestError("missing", str(error)) from error


def _requested_spec(options: Options) -> dict[str, Any]:
    """The requested spec of a NamespaceOffloading. Raises RequestError for an invalid one."""
    asked: dict[str, Any] = {}
    if "strategy" in options:
        if options["strategy"] not in STRATEGIES:
            raise RequestError("invalid", f"strategy is one of {', '.join(STRATEGIES)}")
        asked["podOffloadingStrategy"] = options["strategy"]
    if "selector" in options:
        try:
            asked["clusterSelector"] = node_selector([options["selector"]])
        except ConfigError as error:
            raise RequestError("invalid", str(error)) from error
    return asked


def _where(strategy: str) -> str:
    return {"Local": "here", "Remote": "on peers only"}.get(strategy, "here and on peers")


class Decisions:
    """Plans and writes decisions on requests to borrow, as ``liqod inbox accept`` and ``deny`` do.

    Args:
        context: this cluster.
        components: the running components.
    """

    def __init__(self, context: ClusterContext, components: Components) -> None:
        self._context, self._components = context, components

    async def changes(self, verb: str, who: str, options: Options) -> tuple[str, ...]:
        """List the effect of a decision: the exact grant. Raises RequestError or LiqodError."""
        entry = await self._waiting(verb, who)
        spec, later = entry.spec, _later(options)
        if verb == "deny":
            return (f"{spec.cluster_id} is not let in{later}",)
        answering.acceptance(entry, _less(options))
        granted = policies.accepted(
            spec.resources, entry.status.granted, _less(options), self._defaults()
        )
        lends = _listed(granted)
        first = f"{spec.cluster_id} may borrow {lends or 'nothing'} from this cluster{later}"
        told = [first, f"it asks for {_listed(spec.resources) or 'what is granted by default'}"]
        told.append(f"the words on both sides: {entry.status.words}")
        if entry.status.reason:
            told.append(f"it waits: {entry.status.reason}")
        if spec.networking:
            told.append("it asks for the networks to be joined")
        if "replace" in options:
            told.append("the key that it was known by is let in no more")
        return tuple(told)

    @staticmethod
    def command(verb: str, who: str, options: Options) -> str:
        """The command line that does the same."""
        flags = [f"--{name}" for name in FLAGS if name in options]
        less = [word for name, text in _less(options).items() for word in (f"--{name}", text)]
        return shlex.join(["liqod", "inbox", verb, who, *less, *flags])

    async def do(self, verb: str, who: str, options: Options, step: Callable[[str], None]) -> str:
        """Write a decision; one sentence about the outcome. Raises RequestError or LiqodError."""
        entry = await self._waiting(verb, who)
        flags = {name: name in options for name in FLAGS}
        if verb == "deny":
            decision = answering.denial(always=flags["always"])
        else:
            decision = answering.acceptance(entry, _less(options), **flags)
        step("write the decision")
        client, namespace = self._context.client, self._context.namespace
        await answering.decide(client, namespace, entry, decision)
        if verb == "deny":
            return f"{entry.spec.cluster_id} is denied"
        step(f"let {entry.spec.cluster_id} in")
        try:
            done = await answering.taken_up(client, namespace, entry.name, within=WITHIN)
        except TransientError:
            why = entry.status.reason or "the daemon has not taken it up yet"
            return f"the decision on {entry.spec.cluster_id} is written: {why}"
        return answering.outcome(done)

    def _defaults(self) -> Mapping[str, int | str]:
        """Resources granted to a slice that names none, by the current configuration."""
        discovery = self._components.discovery
        context = self._context if discovery is None else discovery.context
        return context.config.provider.default_resources

    async def _waiting(self, verb: str, who: str) -> IncomingPeering:
        try:
            entry = await answering.entry(self._context.client, self._context.namespace, who)
        except ConfigError as error:
            raise RequestError("missing", str(error)) from error
        if entry.status.phase != "Waiting":
            how = entry.status.phase.lower() or "not identified yet"
            why = answering.problem(entry, {"decision": verb.capitalize()})
            why = why or f"{who} does not wait for an answer: it is {how}"
            raise RequestError("invalid", why)
        return entry


def _less(options: Options) -> dict[str, str]:
    return {name: options[name] for name in LESS if name in options}


def _later(options: Options) -> str:
    return ", now and for what it asks later" if "always" in options else ""


def _listed(resources: Mapping[str, int | str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sorted(resources.items()))
