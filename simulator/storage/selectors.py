"""Label and field selectors: parsed once per request, asked of stored bytes.

The grammar is that of ``k8s.io/apimachinery/pkg/labels`` and ``fields``.
"""

import re
from collections.abc import Callable

import msgspec

from liqod.model.objects.selectors import holds
from simulator.storage.storage import Item
from simulator.wire.failures import ApiError, bad_request

Labels = dict[str, str]
LabelTest = Callable[[Labels], bool]
ItemTest = Callable[[Item], bool]


class _Labelled(msgspec.Struct):
    labels: Labels | None = None


class _WithLabels(msgspec.Struct):
    metadata: _Labelled


_label_decoder = msgspec.json.Decoder(_WithLabels)


def labels_of(item: Item) -> Labels:
    """The labels of a stored object."""
    if b'"labels":{' not in item.raw:
        return {}
    return _label_decoder.decode(item.raw).metadata.labels or {}


_SET = re.compile(r"^\s*(\S+?)\s+(in|notin)\s*\(([^)]*)\)\s*$")
_COMPARE = re.compile(r"^\s*([^\s!=<>]+)\s*(==|!=|=|>|<)\s*([^\s=]*)\s*$")
_EXISTS = re.compile(r"^\s*(!?)\s*([^\s!=<>(),]+)\s*$")


def _split(text: str) -> list[str]:
    return re.split(r",(?![^(]*\))", text)


def parse_labels(text: str) -> LabelTest:
    """The test that a ``labelSelector`` describes.

    Raises:
        ApiError: 400, it is malformed.
    """
    tests = [_label_term(part) for part in _split(text)] if text.strip() else []
    return lambda labels: all(test(labels) for test in tests)


def _label_term(part: str) -> LabelTest:
    if match := _SET.match(part):
        key, operator, listed = match.groups()
        values = {value.strip() for value in listed.split(",")}
        return _membership(key, values, operator == "in")
    if match := _COMPARE.match(part):
        key, operator, value = match.groups()
        if operator in "<>":
            return Requirement(key, "Gt" if operator == ">" else "Lt", (value,)).holds
        return _membership(key, {value}, operator != "!=")
    if match := _EXISTS.match(part):
        absent, key = match.groups()
        return lambda labels: (key in labels) != bool(absent)
    raise bad_request(f"unable to parse requirement: found '{part}', expected: identifier")


def _membership(key: str, values: set[str], wanted: bool) -> LabelTest:
    if wanted:
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values


class Requirement(msgspec.Struct, frozen=True):
    """One expression of a ``LabelSelector`` or a node selector term."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def holds(self, labels: Labels) -> bool:
        """True if labels satisfy the requirement; never with an unknown operator."""
        return holds(self.operator, self.values, labels.get(self.key))


class LabelSelector(msgspec.Struct, frozen=True, rename="camel"):
    """``metav1.LabelSelector``; an empty one selects everything."""

    match_labels: Labels = {}
    match_expressions: tuple[Requirement, ...] = ()

    def holds(self, labels: Labels) -> bool:
        """True if labels satisfy the whole selector."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            requirement.holds(labels) for requirement in self.match_expressions
        )


def to_selector(value: object) -> LabelSelector:
    """A ``LabelSelector`` from plain JSON values."""
    return msgspec.convert(value or {}, LabelSelector)


class _FieldSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""
    restart_policy: str = ""
    scheduler_name: str = ""
    service_account_name: str = ""
    host_network: bool = False
    unschedulable: bool = False
    type: str = ""
    cluster_ip: str = msgspec.field(name="clusterIP", default="")
    signer_name: str = ""


class _FieldStatus(msgspec.Struct, rename="camel"):
    phase: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")
    nominated_node_name: str = ""


class _FieldInvolved(msgspec.Struct, rename="camel"):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""


class _FieldSource(msgspec.Struct):
    component: str = ""


class _Fields(msgspec.Struct, rename="camel"):
    spec: _FieldSpec = msgspec.field(default_factory=_FieldSpec)
    status: _FieldStatus = msgspec.field(default_factory=_FieldStatus)
    involved_object: _FieldInvolved = msgspec.field(default_factory=_FieldInvolved)
    source: _FieldSource = msgspec.field(default_factory=_FieldSource)
    reporting_component: str = ""
    type: str = ""
    reason: str = ""


_field_decoder = msgspec.json.Decoder(_Fields)

_PATHS: dict[str, dict[str, Callable[[_Fields], object]]] = {
    "pods": {
        "spec.nodeName": lambda found: found.spec.node_name,
        "spec.restartPolicy": lambda found: found.spec.restart_policy,
        "spec.schedulerName": lambda found: found.spec.scheduler_name,
        "spec.serviceAccountName": lambda found: found.spec.service_account_name,
        "spec.hostNetwork": lambda found: found.spec.host_network,
        "status.phase": lambda found: found.status.phase,
        "status.podIP": lambda found: found.status.pod_ip,
        "status.nominatedNodeName": lambda found: found.status.nominated_node_name,
    },
    "nodes": {"spec.unschedulable": lambda found: found.spec.unschedulable},
    "namespaces": {"status.phase": lambda found: found.status.phase},
    "services": {
        "spec.clusterIP": lambda found: found.spec.cluster_ip,
        "spec.type": lambda found: found.spec.type,
    },
    "secrets": {"type": lambda found: found.type},
    "certificatesigningrequests.certificates.k8s.io": {
        "spec.signerName": lambda found: found.spec.signer_name
    },
    "events": {
        "involvedObject.kind": lambda found: found.involved_object.kind,
        "involvedObject.namespace": lambda found: found.involved_object.namespace,
        "involvedObject.name": lambda found: found.involved_object.name,
        "involvedObject.uid": lambda found: found.involved_object.uid,
        "involvedObject.apiVersion": lambda found: found.involved_object.api_version,
        "reason": lambda found: found.reason,
        "reportingComponent": lambda found: found.reporting_component,
        "source": lambda found: found.source.component or found.reporting_component,
        "type": lambda found: found.type,
    },
}


def parse_fields(text: str, qualified: str, namespaced: bool) -> ItemTest | None:
    """The test that a ``fieldSelector`` describes, or None if it selects everything.

    Raises:
        ApiError: 400, it is malformed or names a field that this kind does not select by.
    """
    tests: list[ItemTest] = []
    for part in text.split(","):
        if not part.strip():
            continue
        match = re.match(r"^\s*([^\s=!]+)\s*(==|!=|=)(.*)$", part)
        if match is None:
            raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
        field, operator, value = match.groups()
        tests.append(_field_term(field, operator != "!=", value.strip(), qualified, namespaced))
    if not tests:
        return None
    return lambda item: all(test(item) for test in tests)


def _field_term(field: str, wanted: bool, value: str, qualified: str, namespaced: bool) -> ItemTest:
    if field == "metadata.name":
        return lambda item: (item.name == value) == wanted
    if field == "metadata.namespace" and namespaced:
        return lambda item: (item.namespace == value) == wanted
    read = _PATHS.get(qualified, {}).get(field)
    if read is None:
        raise unsupported_field(field)

    def test(item: Item) -> bool:
        found = read(_field_decoder.decode(item.raw))
        text = str(found).lower() if isinstance(found, bool) else str(found)
        return (text == value) == wanted

    return test


def unsupported_field(field: str) -> ApiError:
    """400 for a field that a kind does not select by."""
    return bad_request(f"field label not supported: {field}")
