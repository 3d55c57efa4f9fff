"""The actions on requests to borrow: those of ``liqod inbox accept`` and ``liqod inbox deny``."""

import shlex
from collections.abc import Callable, Mapping

from liqod.cluster.context import ClusterContext
from liqod.errors import ConfigError, TransientError
from liqod.handshake.requests import policies
from liqod.inspect.components import Components
from liqod.inspect.protocol import RequestError
from liqod.procedures import answering
from liqod.resources import IncomingPeering

LESS = ("cpu", "memory", "pods")
"""Resources of which less than requested may be granted, by the names of options."""
FLAGS = ("always", "replace")
WITHIN = 10.0
"""Seconds in which the daemon takes a decision up; it is written anyway."""

Options = Mapping[str, str]


class Decisions:
    """Plans and writes decisions.

    Args:
        context: this cluster.
        components: those that work now.
    """

    def __init__(self, context: ClusterContext, components: Components) -> None:
        self._context, self._components = context, components

    async def changes(self, verb: str, who: str, options: Options) -> tuple[str, ...]:
        """The effect of a decision: the exact grant. Raises RequestError or LiqodError."""
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
        """Write it; one sentence about the outcome. Raises RequestError or LiqodError."""
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
        """Resources granted to a slice that names none, as configured now."""
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
