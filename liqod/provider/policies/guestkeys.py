"""Restricts, by lists of allowed values, the names that guests may use in their objects here.

Keys, hosts, classes, and fields by which they would choose addresses and ports.

The lists are the operator's (``[guests]``). The daemon writes them on each namespace of a consumer,
as annotations that no consumer can write, and the admission policies read them there; where one is
missing the default holds. ShadowPods, which go through the daemon, are held to the same lists here:
annotations that are not on the list are left out, and the pod names them; a label that is not on
the list keeps the pod from being made, since Services and policies find it by its labels. The
functions are pure.
"""

from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.config import GuestSettings
from liqod.model.crossing import allowedkeys
from liqod.provider.policies.cel import (
    GUEST_CLAIMS,
    WRITES,
    Manifest,
    for_guests,
    refusal,
    rule,
    written,
)
from liqod.provider.policies.podrestrictions import NotAllowed, remedy

KEYS_POLICY: Final = "liqod-guest-keys"
HOSTS_POLICY: Final = "liqod-guest-hosts"
CLASSES_POLICY: Final = "liqod-guest-classes"
BALANCERS_POLICY: Final = "liqod-guest-load-balancers"
FIELDS_POLICY: Final = "liqod-guest-fields"

_OURS: Final = {labels.LEFT_OUT, labels.CHANGES}
"""Annotations that the daemon writes on a guest's Pod itself."""
ALLOWED: Final = "liqod.io/allowed-"
"""Prefix of the names of those annotations; a name of ``[guests]`` with hyphens follows."""
LISTS: Final = (
    *("annotations", "labels", "ingress_hosts"),
    *("ingress_classes", "storage_classes", "load_balancer_classes", "fields"),
)
"""The settings that are written there."""
_DEFAULTS: Final = GuestSettings()


def notes(guests: GuestSettings, peer: str) -> dict[str, str]:
    """The annotations of a consumer's namespace: each list, its entries apart by a space."""
    return {
        f"{ALLOWED}{name.replace('_', '-')}": " ".join(
            each.replace("{peer}", peer) for each in getattr(guests, name)
        )
        for name in LISTS
    }


def brought(meta: ObjectMeta, guests: GuestSettings) -> ObjectMeta:
    """A ShadowPod's metadata as its pod may have it, with a note of the parts left out."""
    kept = {
        key: value for key, value in meta.labels.items() if allowedkeys.brings(key, guests.labels)
    }
    noted = {
        key: value
        for key, value in meta.annotations.items()
        if allowedkeys.brings(key, guests.annotations) and key not in _OURS
    }
    left = sorted(meta.annotations.keys() - noted.keys() - _OURS)
    if left:
        noted[labels.LEFT_OUT] = " ".join(left)[:1024]
    if kept == meta.labels and noted == meta.annotations:
        return meta
    return msgspec.structs.replace(meta, labels=kept, annotations=noted)


def check_labels(meta: ObjectMeta, guests: GuestSettings) -> None:
    """Check that a ShadowPod has no label that guests may not have.

    Raises:
        NotAllowed: it does.
    """
    strange = sorted(key for key in meta.labels if not allowedkeys.brings(key, guests.labels))
    if strange:
        named = ", ".join(strange)[:256]
        raise NotAllowed(f"{allowedkeys.STRANGE_LABELS}{named}; {remedy('labels')}")


_RULE_HOST: Final = "r.?host.orValue('')"


def policies() -> list[Manifest]:
    """All policies, each followed by its binding."""
    return [
        *for_guests(
            KEYS_POLICY,
            written(),
            *key_validations(),
            variables=key_variables(),
            held=GUEST_CLAIMS,
        ),
        *for_guests(
            HOSTS_POLICY,
            [rule("networking.k8s.io", ["ingresses"], WRITES)],
            refusal(
                "'*' in variables.hosts || (!has(object.spec.defaultBackend)"
                f" && object.spec.?rules.orValue([]).all(r, {_host(_RULE_HOST)})"
                " && object.spec.?tls.orValue([])"
                f".all(t, t.?hosts.orValue([]).all(h, {_host('h')})))",
                "a host of the Ingress is not for guests: the provider's administrator can "
                "allow it (ingress_hosts under [guests])",
            ),
            _class("ingressClassName", "ingress_classes"),
            variables={"hosts": _list("ingress_hosts"), "classes": _list("ingress_classes")},
        ),
        *_of_class(
            CLASSES_POLICY,
            rule("", ["persistentvolumeclaims"], ["CREATE"]),
            "storageClassName",
            "storage_classes",
        ),
        *_of_class(
            BALANCERS_POLICY,
            rule("", ["services"], WRITES),
            "loadBalancerClass",
            "load_balancer_classes",
        ),
        *_chosen(),
    ]


def _of_class(name: str, held: Manifest, field: str, setting: str) -> list[Manifest]:
    """The policy for the fields that name a class of this cluster, and for no others."""
    classes = {"classes": _list(setting)}
    made = _class(field, setting)
    return for_guests(name, [held], made, variables=classes, held=GUEST_CLAIMS)


def _chosen() -> list[Manifest]:
    """The policy for the fields by which a guest would choose values that are assigned otherwise.

    Ports and cluster addresses that were not requested are assigned before a policy is evaluated:
    the one that set them is in the object's managed fields, which the API server writes at each
    request itself.
    """
    ports = "object.spec.?ports.orValue([])"
    before = "request.operation == 'UPDATE' ? oldObject.spec.?ports.orValue([]) : []"
    checked = "request.operation == 'UPDATE' && oldObject.spec.?healthCheckNodePort.orValue(0)"
    return for_guests(
        FIELDS_POLICY,
        [rule("", ["services", "persistentvolumeclaims"], WRITES)],
        _field("loadBalancerIP", _text("loadBalancerIP")),
        _field("volumeAttributesClassName", _text("volumeAttributesClassName")),
        _field(
            "clusterIP",
            "object.spec.?clusterIP.orValue('') in ['', 'None'] || variables.kept"
            " || !variables.set.exists(s, s == 'clusterIP')",
        ),
        _field("nodePort", "variables.known || !variables.set.exists(s, s == 'nodePort')"),
        _field(
            "healthCheckNodePort",
            "object.spec.?healthCheckNodePort.orValue(0) == 0"
            f" || {checked} == object.spec.healthCheckNodePort"
            " || !variables.set.exists(s, s == 'healthCheckNodePort')",
        ),
        variables={
            "fields": _list("fields"),
            "before": before,
            "known": f"{ports}.all(p, p.?nodePort.orValue(0) == 0"
            " || variables.before.exists(b, b.?nodePort.orValue(0) == p.nodePort))",
            "kept": "request.operation == 'UPDATE'"
            " && object.spec.?clusterIP.orValue('') == oldObject.spec.?clusterIP.orValue('')"
            " && object.spec.?clusterIPs.orValue([]) == oldObject.spec.?clusterIPs.orValue([])",
            "managed": "object.metadata.?managedFields.orValue([])"
            ".map(m, m.?fieldsV1[?'f:spec'].orValue({}))",
            "set": "variables.managed.size() == 0"
            " ? ['nodePort', 'healthCheckNodePort', 'clusterIP'] : "
            "(variables.managed.exists(m, 'f:clusterIP' in m || 'f:clusterIPs' in m)"
            " ? ['clusterIP'] : [])"
            " + (variables.managed.exists(m, 'f:healthCheckNodePort' in m)"
            " ? ['healthCheckNodePort'] : [])"
            " + (variables.managed.exists(m, m[?'f:ports'].orValue({})"
            ".exists(k, 'f:nodePort' in m['f:ports'][k])) ? ['nodePort'] : [])",
        },
        held=GUEST_CLAIMS,
    )


def _text(field: str) -> str:
    """CEL: true if a field is empty, or as it was."""
    name = f"object.spec.?{field}.orValue('')"
    was = f"oldObject.spec.?{field}.orValue('')"
    return f"{name} == '' || request.operation == 'UPDATE' && {name} == {was}"


def _field(field: str, expression: str) -> Manifest:
    return refusal(
        f"'{field}' in variables.fields || {expression}",
        f"{field} is not for guests to choose: the provider's administrator can allow it "
        "(fields under [guests])",
    )


def key_validations() -> list[Manifest]:
    """Refusals of keys that are on neither list (:func:`key_variables`)."""
    return [
        _named("strangeAnnotations", allowedkeys.STRANGE_ANNOTATIONS),
        _named("strangeLabels", allowedkeys.STRANGE_LABELS),
    ]


def key_variables() -> dict[str, str]:
    """CEL variables: the lists of a namespace's guests, and the keys of an object on neither."""
    return {
        "annotations": _list("annotations"),
        "labels": _list("labels"),
        "strangeAnnotations": _strange("annotations"),
        "strangeLabels": _strange("labels"),
    }


def _list(name: str) -> str:
    """CEL: the list of that name, from the namespace."""
    key = f"{ALLOWED}{name.replace('_', '-')}"
    default = " ".join(getattr(_DEFAULTS, name))
    return f"namespaceObject.metadata.?annotations[?'{key}'].orValue('{default}').split(' ')"


def _strange(field: str) -> str:
    """CEL: the keys of labels or annotations that are on no list, and were not there before."""
    allowed, before = f"variables.{field}", f"oldObject.metadata.?{field}.orValue({{}})"
    own = " || ".join(f"k.startsWith('{prefix}')" for prefix in allowedkeys.PROTOCOL)
    own += f" || k in {list(allowedkeys.OWN)}"
    return (
        f"object.metadata.?{field}.orValue({{}}).filter(k, !(k in {allowed}"
        f" || '{allowedkeys.ALL_KEYS}' in {allowed} || {own}"
        f" || (k.contains('/') ? k.split('/')[0] + '/*' : '*') in {allowed})"
        f" && !(request.operation == 'UPDATE' && k in {before}"
        f" && {before}[k] == object.metadata.{field}[k]))"
    )


def _named(variable: str, said: str) -> Manifest:
    held = refusal(f"variables.{variable}.size() == 0", said.rstrip(": "))
    return {**held, "messageExpression": f"'{said}' + variables.{variable}.join(', ')"}


def _host(host: str) -> str:
    """CEL: true if a host is on the list; an empty one is all hosts."""
    return (
        f"({host} in variables.hosts && {host} != '') || variables.hosts.exists(p, "
        f"p.startsWith('*.') && {host}.endsWith(p.substring(1)))"
    )


def _class(field: str, setting: str) -> Manifest:
    name = f"object.spec.?{field}.orValue('')"
    return refusal(
        f"{name} == '' || '*' in variables.classes || {name} in variables.classes",
        f"this {field} is not for guests: the provider's administrator can allow it "
        f"({setting} under [guests])",
    )
