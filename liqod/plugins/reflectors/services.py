"""Services look the same at a peer, but for what each cluster gives out itself.

Kept and dropped as in Liqo. The selector is kept, so that the pods of this namespace that run there
are found there, by the peer's own controllers. Written by server-side apply: addresses, node ports
and the status of a load balancer are the peer's fields. Its class is the one that the settings
name, or else the peer's own default where it offers one, or none at all.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SERVICES
from liqod.model.clusterset.choosing import CHOSEN_BY_CLIENTS, INVALID, NO_ADDRESS
from liqod.model.clusterset.exports import CLOSE
from liqod.model.clusterset.keeping import INVALID as UNKEPT
from liqod.model.clusterset.keeping import Keeping, keeping
from liqod.model.crossing import fields
from liqod.model.crossing.addresses import family
from liqod.model.crossing.annotations import bool_value
from liqod.model.crossing.preference import OWN_FIRST, OWN_ONLY, Preference, preference
from liqod.model.network.ranges import PeerRanges
from liqod.plugins.contracts import (
    NOTHING,
    READ,
    AdmissionPolicy,
    Grant,
    Json,
    Plan,
    Reason,
    Reflector,
    RemoteKind,
    Right,
    Validation,
    View,
    Write,
)
from liqod.plugins.crossing import class_there, manifest
from liqod.plugins.hookspecs import hookimpl

KEPT = fields.copied(fields.SERVICE)
KEPT_OF_PORT = fields.copied(fields.SERVICE_PORT)
HEADLESS = "None"
BALANCED: Final = "LoadBalancer"
AT_PEERS: Final = "PreferenceAtPeersOnly"
HERE: Final = (
    f"{labels.ENDPOINT_PREFERENCE} holds for clients at peers: in this cluster the EndpointSlices "
    "are of Kubernetes' own controller, which takes pods at peers like others; "
    "spec.trafficDistribution has zones come first where all nodes, virtual ones too, have one"
)


class ServiceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[plugins.settings.services]``.

    Attributes:
        classes: the load balancer class at a peer, by the class here: ``CLASS``, or ``PEER/CLASS``
            for one peer alone.
    """

    classes: dict[str, str] = {}


def outgoing(service: Json, view: View) -> Plan:
    """The same service over there; the API server's own stays here."""
    meta, spec = service["metadata"], service.get("spec") or {}
    if (view.names.namespace, meta["name"]) == ("default", "kubernetes"):
        return NOTHING
    kept = {field: spec[field] for field in KEPT if spec.get(field) is not None}
    forced = bool_value(meta.get("annotations") or {}, labels.FORCE_REMOTE_NODE_PORT) is True
    of_port = (*KEPT_OF_PORT, "nodePort") if forced else KEPT_OF_PORT
    ports = [
        {field: port[field] for field in of_port if port.get(field) is not None}
        for port in spec.get("ports") or ()
    ]
    if ports:
        kept["ports"] = ports
    if spec.get("clusterIP") == HEADLESS:
        kept["clusterIP"] = HEADLESS
    if spec.get("type") == BALANCED:
        here, classes = spec.get("loadBalancerClass") or "", view.settings.classes
        there = class_there(here, classes, view, lambda node: node.load_balancer_class)
        # An API server takes a class at creation and never after it: one that was made without, or
        # with another, goes on as it is.
        fixed = any("loadBalancerClass" in each.message for each in view.refusals)
        if there and not fixed:
            kept["loadBalancerClass"] = there
    families = spec.get("ipFamilies") or []
    # Clusters of both begin with IPv4 where nothing is said; one that lacks a family refuses it.
    if families[:1] == ["IPv6"] and _has_both(view.names.ranges):
        kept["ipFamilies"] = families
    asked = preference(meta.get("annotations"))
    headless = spec.get("clusterIP") == HEADLESS
    if asked.order == OWN_FIRST and spec.get("clusterIP") and not headless:
        kept["trafficDistribution"] = CLOSE[0]
    return Plan(
        remote=(manifest(SERVICES, meta["name"], service, view, spec=kept),),
        reasons=(
            *_preferred(asked, headless=headless),
            *_kept(keeping(meta.get("annotations") or {}), headless=headless),
        ),
    )


def _preferred(asked: Preference, *, headless: bool) -> Iterator[Reason]:
    """The part of a wish for endpoints that cannot be fulfilled."""
    if asked.problem:
        said = f"the annotation {labels.ENDPOINT_PREFERENCE} is not followed: {asked.problem}"
        yield Reason(INVALID, said)
    elif headless and asked.order != OWN_ONLY and asked.asked:
        said = f"the annotation {labels.ENDPOINT_PREFERENCE} is not followed: {CHOSEN_BY_CLIENTS}"
        yield Reason(NO_ADDRESS, said)
    elif asked.asked:
        yield Reason(AT_PEERS, HERE, expected=True)


def _kept(wish: Keeping, *, headless: bool) -> Iterator[Reason]:
    """A wish to keep endpoints that cannot be fulfilled at peers."""
    said = f"the annotation {labels.KEEP_LAST_ENDPOINTS} is not followed"
    if wish.problem:
        yield Reason(UNKEPT, f"{said}: {wish.problem}")
    elif headless and wish.last:
        yield Reason(NO_ADDRESS, f"{said}: {CHOSEN_BY_CLIENTS}")


def _has_both(ranges: PeerRanges | None) -> bool:
    """True if the peer's pods have addresses of both families, as far as is known."""
    pods = () if ranges is None else ranges.peer.pod
    return len({family(each.partition("/")[0]) for each in pods}) > 1


REFLECTOR = Reflector(
    name="services",
    kind=SERVICES,
    outgoing=outgoing,
    remote=(
        RemoteKind(kind=SERVICES, write=Write.APPLY, fixed=("spec.clusterIP", "spec.ipFamilies")),
    ),
    rights=(
        Right(
            group="",
            resources=("services",),
            verbs=READ,
            why="Services of offloaded namespaces are reflected",
        ),
    ),
    grant=Grant(
        quota={"count/services": "1000", "services.nodeports": "20", "services.loadbalancers": "5"},
        policy=AdmissionPolicy(
            name="services",
            validations=(
                Validation(
                    "object.spec.?externalIPs.orValue([]).size() == 0",
                    "a consumer may not claim addresses for its services (externalIPs)",
                ),
            ),
        ),
    ),
    config_type=ServiceSettings,
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """Services."""
    return [REFLECTOR]
