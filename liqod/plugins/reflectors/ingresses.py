"""Ingresses look the same at a peer, but for their class; the peers' addresses come back.

The peer's controller serves the same hosts and paths there, by the Services that are reflected. Its
class is the one that the settings name, or else the peer's own default where it offers one, or none
at all. Where this cluster has the IngressClass that an Ingress names, a controller here writes its
status, and nobody else does; otherwise the addresses of all peers are shown, each once.
"""

import ipaddress
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from liqod.apimachinery.kinds import INGRESS_CLASSES, INGRESSES
from liqod.model.crossing import fields
from liqod.plugins.contracts import (
    READ,
    AdmissionPolicy,
    Grant,
    Json,
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
from liqod.plugins.crossing import class_there, manifest
from liqod.plugins.hookspecs import hookimpl

KEPT: Final = fields.copied(fields.INGRESS)
CLASS: Final = "kubernetes.io/ingress.class"
"""Annotation that names a class in the way from before ``spec.ingressClassName``."""
MOST: Final = 16
"""Addresses of one peer that are shown."""
_HOSTNAME: Final = re.compile(
    r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*"
)
"""RFC 1123, as the API server holds it."""


class IngressSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[plugins.settings.ingresses]``.

    Attributes:
        classes: the class at a peer, by the class here: ``CLASS``, or ``PEER/CLASS`` for one peer
            alone; an empty one there stands for the peer's default.
    """

    classes: dict[str, str] = {}


def outgoing(ingress: Json, view: View) -> Plan:
    """The same Ingress over there, of a class that is known there."""
    spec = ingress.get("spec") or {}
    kept = {field: spec[field] for field in KEPT if spec.get(field) is not None}
    here, classes = class_of(ingress), view.settings.classes
    there = class_there(here, classes, view, lambda node: node.ingress_class)
    if there:
        kept["ingressClassName"] = there
    remote = manifest(INGRESSES, ingress["metadata"]["name"], ingress, view, spec=kept)
    remote["metadata"]["annotations"].pop(CLASS, None)
    return Plan(remote=(remote,))


def incoming(ingress: Json, remote: tuple[Json, ...], view: View) -> Plan:
    """Under which addresses the peer serves it, unless a controller here says that."""
    here = class_of(ingress)
    if here and view.get(INGRESS_CLASSES, here) is not None:
        return Plan()
    found = [each for one in remote for each in addresses(one)]
    return Plan(status={"loadBalancer": {"ingress": found}} if found else None)


def combine(ingress: Json, statuses: Mapping[str, Json]) -> Json:
    """The addresses of all peers, each once, in the order of their ids."""
    shown: dict[str, Json] = {}
    for _, status in sorted(statuses.items()):
        for each in status["loadBalancer"]["ingress"]:
            shown.setdefault(next(iter(each.values())), each)
    return {"loadBalancer": {"ingress": list(shown.values())}}


def class_of(ingress: Json) -> str:
    """The class that an Ingress names, in either way; empty for none."""
    named = (ingress.get("spec") or {}).get("ingressClassName")
    return str(named or (ingress["metadata"].get("annotations") or {}).get(CLASS) or "")


def addresses(remote: Json) -> list[Json]:
    """The valid addresses and host names in the status of a peer's Ingress."""
    status: Any = (remote.get("status") or {}).get("loadBalancer") or {}
    found: list[Json] = []
    for each in (status.get("ingress") or ())[:MOST]:
        address, hostname = each.get("ip"), each.get("hostname")
        if isinstance(address, str) and _is_address(address):
            found.append({"ip": address})
        elif isinstance(hostname, str) and _HOSTNAME.fullmatch(hostname):
            found.append({"hostname": hostname})
    return found


def _is_address(text: str) -> bool:
    try:
        return "%" not in text and not ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return False


NO_SNIPPETS: Final = Validation(
    "object.metadata.?annotations.orValue({})"
    ".all(k, !k.endsWith('-snippet') && !k.endsWith('-snippets'))",
    "a consumer may not put configuration into an ingress controller (-snippet)",
)
OWN_SECRETS: Final = Validation(
    "object.metadata.?annotations.orValue({})"
    ".all(k, !k.endsWith('-secret')"
    " || !object.metadata.annotations[k].contains('/')"
    " || object.metadata.annotations[k].startsWith(request.namespace + '/'))",
    "a consumer may not name a Secret of another namespace",
)

REFLECTOR = Reflector(
    name="ingresses",
    kind=INGRESSES,
    outgoing=outgoing,
    incoming=incoming,
    remote=(RemoteKind(kind=INGRESSES, write=Write.APPLY, watch=Watch.FULL),),
    reads=(Reads(INGRESS_CLASSES, everywhere=True),),
    several=Several.MERGED,
    combine=combine,
    rights=(
        Right(
            group=INGRESSES.group,
            resources=("ingresses", "ingressclasses"),
            verbs=READ,
            why="Ingresses of offloaded namespaces are reflected; which classes are this cluster's "
            "own",
        ),
        Right(
            group=INGRESSES.group,
            resources=("ingresses/status",),
            verbs=("patch",),
            why="the addresses under which peers serve an Ingress",
            rare="a peer serves an Ingress",
        ),
    ),
    grant=Grant(
        quota={"count/ingresses.networking.k8s.io": "200"},
        policy=AdmissionPolicy(name="ingresses", validations=(NO_SNIPPETS, OWN_SECRETS)),
    ),
    config_type=IngressSettings,
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """Ingresses."""
    return [REFLECTOR]
