"""Checks that a plugin's objects and reports can be used: by type, signature, and what fits."""

import re
from collections.abc import Callable, Iterable
from math import inf
from typing import Any, Final

import msgspec

from liqod.model import endpoints, ids
from liqod.model.objects import fieldpaths
from liqod.model.text import is_fit
from liqod.plugins.contracts import API, Plan, Reflector, Scope, Several, Watch, Write
from liqod.plugins.diagnosis import Check
from liqod.plugins.providers import (
    LONGEST_TTL,
    MOST_ADDRESSES,
    MOST_ADVERT,
    DiscoveryProvider,
    Sighting,
    TunnelProvider,
)
from liqod.plugins.typecheck import SHOWN, arity_problem, shown, signature_problem, type_problem

NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
"""Valid names of plugins: a name is part of marks, metrics and tables of the configuration."""

LONGEST = 4096
"""Characters of any text of a sighting."""

MOST_OVERHEAD = 220
"""Bytes that a tunnel may add to a packet: of 1500, the 1280 of IPv6 are to be left."""

Provided = Reflector | DiscoveryProvider | TunnelProvider | Check


def provided_problem(provided: Provided) -> str | None:
    """Why something provided cannot be used, in a sentence that names the field; None if it can."""
    if provided.api != API:
        return f"it is written for version {provided.api} of the contract; this is {API}"
    wrong = type_problem(provided)
    if wrong is not None:
        return wrong
    if not NAME.fullmatch(provided.name):
        return f"name is to be of small letters, digits and dashes, and is {provided.name!r}"
    if not issubclass(provided.config_type, msgspec.Struct):
        return "config_type is to be a msgspec.Struct"
    if isinstance(provided, Reflector):
        return _of_functions(
            ("outgoing", provided.outgoing, 2),
            ("incoming", provided.incoming, 3),
            ("combine", provided.combine, 2),
            ("offered", provided.offered, 1),
            *(
                (f"remote[{at}].debounce", each.debounce, 1)
                for at, each in enumerate(provided.remote)
            ),
        ) or _of_reflector(provided)
    if isinstance(provided, Check):
        return _of_functions(("look", provided.look, 1)) or _of_check(provided)
    if isinstance(provided, DiscoveryProvider):
        return _of_functions(("build", provided.build, 2))
    return _of_functions(("build", provided.build, 3)) or _of_tunnel(provided)


def _of_functions(*functions: tuple[str, Callable[..., Any] | None, int]) -> str | None:
    for name, function, count in functions:
        problem = None if function is None else signature_problem(function, count)
        if problem is not None:
            return f"{name} {problem}"
    return None


def _of_reflector(provided: Reflector) -> str | None:
    if not provided.remote:
        return "remote names no kind that it writes or watches at the peer"
    twice = _twice(each.kind.name for each in provided.remote)
    if twice is not None:
        return f"remote names {twice} twice"
    for each in provided.remote:
        if each.follows and each.write is not Write.ONCE:
            return "follows belongs to write=Write.ONCE, and only to that"
        if each.fixed and each.write is not Write.APPLY:
            return "fixed belongs to write=Write.APPLY, and only to that"
        for field, paths in (("follows", each.follows), ("fixed", each.fixed)):
            wrong = next(filter(None, map(fieldpaths.problem, paths)), None)
            if wrong is not None:
                return f"{field}: {wrong}"
    if provided.governor is not None and provided.governor.kind not in {
        reads.kind for reads in provided.reads
    }:
        return f"governor's kind {provided.governor.kind.name} is not among those in reads"
    if provided.concurrency < 1:
        return "concurrency is to be 1 or more"
    if provided.incoming is not None and not any(
        each.watch is Watch.FULL for each in provided.remote
    ):
        return "incoming is given what is watched in full, and remote has no kind with Watch.FULL"
    if (provided.several is Several.MERGED) != (provided.combine is not None):
        return "combine belongs to several=Several.MERGED, and only to that"
    if provided.scope is Scope.NAMESPACE and not provided.kind.namespaced:
        return f"kind {provided.kind.name} is in no namespace"
    return None


def _of_check(provided: Check) -> str | None:
    if not provided.title or not is_fit(provided.title):
        return "title is to be a line of text that shows itself"
    if provided.every <= 0:
        return "every is to be more than 0 seconds"
    problem = None if provided.probe is None else arity_problem(provided.probe, 1)
    return None if problem is None else f"probe {problem}"


def _of_tunnel(provided: TunnelProvider) -> str | None:
    if not 0 <= provided.overhead <= MOST_OVERHEAD:
        return f"overhead is to be 0 to {MOST_OVERHEAD} bytes, and is {provided.overhead}"
    if not 0 < provided.port < 65536:
        return f"port is to be 1 to 65535, and is {provided.port}"
    if not provided.encrypted and not provided.on_request:
        return "what does not encrypt is to have on_request=True"
    return None


def _twice(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def plan_problem(plan: object) -> str | None:
    """Why something is no plan that can be carried out; None if it is one."""
    if type(plan) is not Plan:
        return f"it is {type(plan).__name__}, not a Plan"
    wrong = type_problem(plan)
    if wrong is not None:
        return wrong
    for field, seconds in (("requeue_after", plan.requeue_after), ("debounce", plan.debounce)):
        if seconds is not None and seconds < 0:
            return f"{field} is to be 0 seconds or more, and is {seconds:g}"
    for field, objects in (("remote", plan.remote), ("local", plan.local)):
        for at, each in enumerate(objects):
            meta = each.get("metadata")
            known = meta if isinstance(meta, dict) else {}
            names = (each.get("apiVersion"), each.get("kind"), known.get("name"))
            if not all(isinstance(name, str) and name for name in names):
                return f"{field}[{at}] is to have an apiVersion, a kind and a metadata.name"
            wrong = json_problem(each)
            if wrong is not None:
                return f"{field}[{at}] is {wrong}"
    wrong = None if plan.status is None else json_problem(plan.status)
    return None if wrong is None else f"status is {wrong}"


def json_problem(value: object) -> str | None:
    """Why something is no object of JSON, in a clause; None if it is one."""
    if type(value) is not dict:
        return f"{shown(value)}, not an object of JSON"
    try:
        msgspec.json.encode(value)
    except BaseException as error:  # the code inside may raise anything
        return f"not to be written as JSON: {type(error).__name__}: {error}"
    return None


def bool_problem(value: object) -> str | None:
    """The reason a value is no bool; None if it is one."""
    return None if type(value) is bool else f"{shown(value)}, not True or False"


def seconds_problem(value: object) -> str | None:
    """Why something is no number of seconds to wait; None if it is one."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf
    return None if good else f"{shown(value)}, not a number of seconds"


def sighting_problem(seen: Sighting) -> str | None:
    """Why something is no sighting of a cluster; None if it is one."""
    if type(seen) is not Sighting:
        return f"it is {type(seen).__name__}, not a Sighting"
    problem = type_problem(seen)
    if problem is not None:
        return problem
    texts = (seen.plugin, seen.where, seen.proof, seen.tenant_namespace, seen.secret)
    if any(len(text) > LONGEST for text in (*texts, seen.kubeconfig, *seen.addresses)):
        return f"it is longer than {LONGEST} characters"
    if not all(is_fit(text) for text in (*texts, *seen.addresses)):
        return "it holds characters that do not show themselves"
    if len(seen.advert) > MOST_ADVERT:
        return f"its advert has {len(seen.advert)} characters; {MOST_ADVERT} are taken"
    if len(seen.addresses) > MOST_ADDRESSES:
        return f"it has {len(seen.addresses)} addresses; {MOST_ADDRESSES} are taken"
    for address in seen.addresses:
        if endpoints.split(address) is None:
            return f"{address[:SHOWN]!r} is no HOST:PORT"
    if not 0 <= seen.ttl <= LONGEST_TTL:
        return f"its ttl is to be 0 to {LONGEST_TTL:.0f} seconds"
    return ids.cluster_id_problem(seen.cluster_id)
