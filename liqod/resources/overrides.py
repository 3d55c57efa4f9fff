"""``offloading.liqod.io``: the differences of reflected objects from those of this cluster.

OverridePolicies are in the consumer's cluster and cross to no other. The changes that they may
make are decided by :mod:`liqod.model.crossing.overrides`; the schema refuses the others as well.
"""

from typing import Annotated, ClassVar, Final

from liqod.apimachinery.kinds import Kind
from liqod.resources.base import (
    AGE,
    MAX_QUANTITIES,
    Base,
    ClusterID,
    Column,
    Definition,
    Int64,
    Quantities,
    Resource,
    Time,
    Toleration,
    one_of,
    schema,
)

GROUP = "offloading.liqod.io"
VERSION = "v1alpha1"

OVERRIDE_POLICIES = Kind(GROUP, VERSION, "OverridePolicy", "overridepolicies")

VALID = "Valid"
APPLIED = "Applied"

MAX_TARGETS: Final = 16
MAX_PEERS: Final = 256
MAX_ITEMS: Final = 64
"""Keys, variables, tolerations or operations of one policy."""
MAX_PATH: Final = 512
MAX_VALUE: Final = 4096
"""Characters of a path and of a value; 64 operations of that size stay below an object's bound."""

WIDENING: Final = (
    *("automountServiceAccountToken", "serviceAccount", "serviceAccountName"),
    "serviceAccountToken",
    *("hostIPC", "hostNetwork", "hostPID", "hostPath", "hostPort", "hostUsers"),
    *("securityContext", "volumes", "volumeDevices"),
    *("imagePullSecrets", "secret", "secretKeyRef", "secretName", "secretRef"),
    *("ephemeralContainers", "nodeName", "runtimeClassName", "schedulerName"),
    *("clusterIP", "clusterIPs", "externalIPs", "externalName"),
)
"""Fields that no operation names, in its path or its value: they would give rights at the peer that
the object has not, or are decided by something else."""
_NAMES: Final = "|".join(WIDENING)
_REFUSED: Final = "it names a field that would widen rights, or that is decided elsewhere"

Name = Annotated[str, schema(maxLength=253)]


def _rules(*rules: tuple[str, str]) -> dict[str, object]:
    return {"x-kubernetes-validations": [{"rule": rule, "message": told} for rule, told in rules]}


_KIND: Final = _rules(("self != 'Secret'", "what a Secret is at peers is not changed by policies"))
_PATH: Final = _rules(
    (
        r"!self.matches('^/(apiVersion|kind|status)(/|$)') && (!self.startsWith('/metadata')"
        r" || self.matches('^/metadata/(labels|annotations)/[^/]+$'))",
        "of metadata only single labels and annotations are changed, and of the rest neither kind"
        " nor status",
    ),
    (f"!self.matches('/({_NAMES})(/|$)')", _REFUSED),
)
_VALUE: Final = _rules(
    (rf"!self.contains('\\u') && !self.matches('\"({_NAMES})\"')", _REFUSED),
)


class OverrideTarget(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The objects of one kind that a policy is for.

    Attributes:
        kind: their kind, as they are in this cluster: ``Pod``, and not ``ShadowPod``.
        api_version: of that; empty for any.
        names: their names; none for all.
        labels: labels that they have.
    """

    kind: Annotated[str, schema(minLength=1, maxLength=63, **_KIND)]
    api_version: Name = ""
    names: Annotated[tuple[Name, ...], schema(maxItems=MAX_ITEMS)] = ()
    labels: Annotated[dict[str, str], schema(maxProperties=MAX_ITEMS)] = {}


class ImageOverride(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The parts of a container's image that are others there; an empty one stays.

    Attributes:
        registry: host and port, such as ``mirror.example.org:5000``.
        repository: the path in it, without a tag.
        tag: the tag; a digest goes with it.
    """

    registry: Name = ""
    repository: Name = ""
    tag: Annotated[str, schema(maxLength=128)] = ""


class EnvironmentVariable(Base, frozen=True, omit_defaults=True, rename="camel"):
    """A variable of containers, with its value there."""

    name: Annotated[str, schema(minLength=1, maxLength=253)]
    value: Annotated[str, schema(maxLength=MAX_VALUE)] = ""


class PatchOperation(Base, frozen=True, omit_defaults=True, rename="camel"):
    """One operation of a JSON patch (RFC 6902).

    Attributes:
        op: what is done.
        path: a JSON pointer, such as ``/spec/ports/0/port``.
        value: JSON; what is none is that text itself. A text that reads as JSON is quoted:
            ``'"3"'``.
    """

    op: Annotated[str, one_of("add", "remove", "replace")]
    path: Annotated[str, schema(pattern="^/", maxLength=MAX_PATH, **_PATH)]
    value: Annotated[str, schema(maxLength=MAX_VALUE, **_VALUE)] = ""


class OverridePolicySpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The objects that a policy is for, the peers, and the changes.

    A field that a kind has not is passed over for its objects; only an operation of ``patch``
    needs its path.

    Attributes:
        objects: the objects.
        peers: ids of the peers; none for all.
        containers: names of the containers that images, variables and amounts are for; none for
            all.
        image: of containers.
        labels: labels that are set.
        annotations: annotations that are set.
        env: variables that are set in containers.
        requests: what containers ask for, by resource.
        limits: what they may use at most.
        node_selector: labels that a pod's node there must have besides.
        tolerations: tolerations that a pod has there besides.
        priority_class_name: class of pods.
        storage_class_name: class of claims.
        ingress_class_name: class of Ingresses.
        hosts: hosts of Ingresses and of routes there, by the host here.
        patch: operations for what these do not cover, in their order, after all of these.
    """

    objects: Annotated[
        tuple[OverrideTarget, ...], schema(required=True, minItems=1, maxItems=MAX_TARGETS)
    ] = ()
    peers: Annotated[tuple[ClusterID, ...], schema(maxItems=MAX_PEERS)] = ()
    containers: Annotated[tuple[Name, ...], schema(maxItems=MAX_ITEMS)] = ()
    image: ImageOverride | None = None
    labels: Annotated[dict[str, str], schema(maxProperties=MAX_ITEMS)] = {}
    annotations: Annotated[dict[str, str], schema(maxProperties=MAX_ITEMS)] = {}
    env: Annotated[tuple[EnvironmentVariable, ...], schema(maxItems=MAX_ITEMS)] = ()
    requests: Annotated[Quantities, schema(maxProperties=MAX_QUANTITIES)] = {}
    limits: Annotated[Quantities, schema(maxProperties=MAX_QUANTITIES)] = {}
    node_selector: Annotated[dict[str, str], schema(maxProperties=MAX_ITEMS)] = {}
    tolerations: Annotated[tuple[Toleration, ...], schema(maxItems=MAX_ITEMS)] = ()
    priority_class_name: Name = ""
    storage_class_name: Name = ""
    ingress_class_name: Name = ""
    hosts: Annotated[dict[str, str], schema(maxProperties=MAX_ITEMS)] = {}
    patch: Annotated[tuple[PatchOperation, ...], schema(maxItems=MAX_ITEMS)] = ()


class OverrideCondition(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The state of one thing, as Kubernetes has conditions."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time = ""


class OverridePolicyStatus(Base, frozen=True, omit_defaults=True, rename="camel"):
    """How a policy fares.

    Attributes:
        observed_generation: generation of the spec that this is about.
        conditions: ``Valid``, and ``Applied``: false while an operation has no path in an object.
    """

    observed_generation: Int64 = 0
    conditions: tuple[OverrideCondition, ...] = ()


class OverridePolicy(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """Changes objects of its namespace for where they go: on their way to a peer, and never here.

    One in liqod's own namespace is for all namespaces.
    """

    KIND: ClassVar[Kind] = OVERRIDE_POLICIES
    spec: OverridePolicySpec = OverridePolicySpec()
    status: OverridePolicyStatus = OverridePolicyStatus()


def _shown(condition: str) -> str:
    return f'.status.conditions[?(@.type=="{condition}")].status'


DEFINITIONS = (
    Definition(
        OverridePolicy,
        ("ovp",),
        (
            Column("Valid", _shown(VALID)),
            Column("Applied", _shown(APPLIED)),
            Column("Peers", ".spec.peers", priority=1),
            AGE,
        ),
        required=("spec",),
    ),
)
