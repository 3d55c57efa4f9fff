"""HTTPRoutes (``gateway.networking.k8s.io/v1``): the same routes at a peer, by its own Gateways.

Host names and rules cross; the settings name the Gateway of a route. The statuses of the peers'
Gateways come back, merged by the key that Gateway API gives to ``status.parents``: the parent and
the controller. A controller of a peer is named with that peer, so no two say one thing.
Where this cluster has a Gateway that the route names, its own controllers write the status, and
peers are not shown.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from liqod.plugins.contracts import (
    READ,
    AdmissionPolicy,
    Grant,
    Json,
    Kind,
    Plan,
    Reads,
    Reflector,
    RemoteKind,
    Right,
    Several,
    Validation,
    View,
    Watch,
    Write,
)
from liqod.plugins.crossing import manifest
from liqod.plugins.hookspecs import hookimpl

GROUP = "gateway.networking.k8s.io"
HTTP_ROUTES = Kind(GROUP, "v1", "HTTPRoute", "httproutes")
GATEWAYS = Kind(GROUP, "v1", "Gateway", "gateways")
MOST = 32
"""Parents of one route: the bound of Gateway API itself."""
TEXT = 1024
"""Characters of a condition's message that are shown."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[plugins.settings.httproutes]``.

    Attributes:
        gateways: the Gateway at a peer, as ``NAMESPACE/NAME``, by the name that it has here:
            ``NAME``, or ``PEER/NAME`` for one peer alone. A route that names no other is reflected
            without parents, and serves nothing there.
    """

    gateways: dict[str, str] = {}


def outgoing(route: Json, view: View) -> Plan:
    """The same route over there, on the peer's Gateways."""
    spec = route.get("spec") or {}
    kept = {name: spec[name] for name in ("hostnames", "rules") if spec.get(name)}
    parents = [there for _, there in parents_at(route, view)]
    if parents:
        kept["parentRefs"] = parents
    name = route["metadata"]["name"]
    return Plan(remote=(manifest(HTTP_ROUTES, name, route, view, spec=kept),))


def incoming(route: Json, remote: tuple[Json, ...], view: View) -> Plan:
    """Merges the statuses of the peer's Gateways, where none of this cluster's has a say."""
    mine = parents_of(route)
    if any(view.get(GATEWAYS, each["name"], each.get("namespace")) for each in mine):
        return Plan()
    here = {key_of(there): each for each, there in parents_at(route, view)}
    generation = route["metadata"].get("generation", 0)
    told = [
        shown
        for one in remote
        for each in _dicts((one.get("status") or {}).get("parents"))
        if (shown := _told(each, here, view.names.peer, (one, generation))) is not None
    ]
    return Plan(status={"parents": told[:MOST]} if told else None)


def combine(route: Json, statuses: Mapping[str, Json]) -> Json:
    """All that the peers say, by parent and controller."""
    merged = {
        (key_of(each["parentRef"]), each["controllerName"]): each
        for _, status in sorted(statuses.items())
        for each in status["parents"]
    }
    return {"parents": [each for _, each in sorted(merged.items())][:MOST]}


def parents_of(route: Json) -> list[Json]:
    """The Gateways that a route names; parents of other kinds stay in this cluster."""
    found = _dicts((route.get("spec") or {}).get("parentRefs"))
    return [each for each in found if each.get("kind", "Gateway") == "Gateway"]


def parents_at(route: Json, view: View) -> list[tuple[Json, Json]]:
    """Each parent of a route that has a Gateway at the peer, and what it is there."""
    return [
        (each, {**{key: each[key] for key in ("sectionName", "port") if key in each}, **there})
        for each in parents_of(route)
        if (there := gateway_at(each["name"], view)) is not None
    ]


def key_of(ref: Mapping[str, Any]) -> tuple[str, ...]:
    """The identity of a parent: all of the reference, not its Gateway alone."""
    return tuple(str(ref.get(key, "")) for key in ("namespace", "name", "sectionName", "port"))


def gateway_at(name: str, view: View) -> Json | None:
    """The Gateway of the peer that stands for one here, or None."""
    gateways: dict[str, str] = view.settings.gateways
    there = gateways.get(f"{view.names.peer}/{name}") or gateways.get(name)
    if not there:
        return None
    namespace, _, gateway = there.rpartition("/")
    return {"name": gateway, **({"namespace": namespace} if namespace else {})}


def _told(
    parent: Json, here: Mapping[tuple[str, ...], Json], peer: str, of: tuple[Json, int]
) -> Json | None:
    """One entry of the peer's as it is shown here; None where it is about no Gateway of ours.

    Args:
        parent: the entry.
        here: parents of the route here, by what they are there.
        peer: whose entry it is.
        of: the route there, and the generation of the one here. Statuses of an
            earlier generation there do not count for the newest one here.
    """
    remote, generation = of
    ref, controller = parent.get("parentRef"), parent.get("controllerName")
    if not isinstance(ref, dict) or not isinstance(controller, str) or "/" not in controller:
        return None
    mine = here.get(key_of(ref))
    if mine is None:
        return None
    newest = remote["metadata"].get("generation", 0)
    return {
        "parentRef": mine,
        "controllerName": f"{controller[:128]}/at/{peer}",
        "conditions": [
            {
                "type": str(each.get("type"))[:316],
                "status": each["status"],
                "reason": str(each.get("reason") or "Unknown")[:TEXT],
                "message": str(each.get("message") or "")[:TEXT],
                "lastTransitionTime": str(each.get("lastTransitionTime")),
                "observedGeneration": (
                    generation if each.get("observedGeneration") == newest else generation - 1
                ),
            }
            for each in _dicts(parent.get("conditions"))
            if each.get("status") in ("True", "False", "Unknown")
        ][:8],
    }


def _dicts(found: Any) -> Iterator[Json]:
    items: Iterable[Any] = found if isinstance(found, list) else ()
    return (each for each in items if isinstance(each, dict))


NO_OTHER_NAMESPACE = Validation(
    "object.spec.?rules.orValue([]).all(r, r.?backendRefs.orValue([])"
    ".all(b, b.?namespace.orValue(request.namespace) == request.namespace))",
    "a consumer's route may not lead into another namespace (backendRefs)",
)

REFLECTOR = Reflector(
    name="httproutes",
    kind=HTTP_ROUTES,
    outgoing=outgoing,
    incoming=incoming,
    remote=(RemoteKind(kind=HTTP_ROUTES, write=Write.APPLY, watch=Watch.FULL),),
    reads=(Reads(GATEWAYS, everywhere=True),),
    several=Several.MERGED,
    combine=combine,
    config_type=Settings,
    rights=(
        Right(
            group=GROUP,
            resources=("httproutes", "gateways"),
            verbs=READ,
            why="HTTPRoutes are reflected; which Gateways are this cluster's own",
        ),
        Right(
            group=GROUP,
            resources=("httproutes/status",),
            verbs=("patch",),
            why="what the Gateways of peers say of them",
        ),
    ),
    grant=Grant(
        quota={f"count/httproutes.{GROUP}": "200"},
        policy=AdmissionPolicy(name="httproutes", validations=(NO_OTHER_NAMESPACE,)),
    ),
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """HTTPRoutes."""
    return [REFLECTOR]
