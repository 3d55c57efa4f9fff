"""Namespaces, nodes, signing requests, CRDs, webhooks and other kinds of the cluster itself."""

from typing import Any

from liqod.kube import times
from simulator.catalog import Resource
from simulator.kinds.base import Strategy, Surroundings, default, keep, section
from simulator.storage import definitions
from simulator.wire.failures import Cause, immutable, required

Json = dict[str, Any]

NOT_READY = "node.kubernetes.io/not-ready"


class NamespaceStrategy(Strategy):
    """The name as a label, the ``kubernetes`` finalizer in ``spec``, the phase."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        meta = obj["metadata"]
        if meta.get("name"):
            section(meta, "labels")["kubernetes.io/metadata.name"] = meta["name"]

    def create(self, resource: Resource, obj: Json, around: Surroundings) -> None:
        """As the base class says."""
        self.defaults(obj)
        spec = section(obj, "spec")
        spec["finalizers"] = list(dict.fromkeys([*spec.get("finalizers", ()), "kubernetes"]))
        obj["status"] = {"phase": "Active"}

    def update(self, resource: Resource, new: Json, old: Json, around: Surroundings) -> None:
        """As the base class says."""
        keep(new, old, "status")
        keep(new, old, "spec")


class NodeStrategy(Strategy):
    """A kubelet registers its node with its status, so creation keeps it."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        section(obj, "spec")
        status = section(obj, "status")
        if "capacity" in status:
            default(status, allocatable=dict(status["capacity"]))

    def admit(self, obj: Json, around: Surroundings) -> None:
        """As the base class says; nothing is to land on a node before it has been judged."""
        taints = [each for each in obj["spec"].get("taints") or () if each.get("key") != NOT_READY]
        obj["spec"]["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]

    def create(self, resource: Resource, obj: Json, around: Surroundings) -> None:
        """As the base class says."""

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        before = ((old or {}).get("spec") or {}).get("podCIDR")
        now = obj["spec"].get("podCIDR")
        if before and now != before:
            return [immutable("spec.podCIDR", now)]
        return []


class SigningRequestStrategy(Strategy):
    """Signing requests: the server sets the user who asks (``handlers``); the spec is immutable."""

    def update(self, resource: Resource, new: Json, old: Json, around: Surroundings) -> None:
        """As the base class says."""
        keep(new, old, "status")
        keep(new, old, "spec")

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        spec = obj.get("spec") or {}
        return [
            required(f"spec.{field}")
            for field in ("request", "signerName", "usages")
            if not spec.get(field)
        ]


class DefinitionStrategy(Strategy):
    """CRDs are accepted and established at once."""

    def create(self, resource: Resource, obj: Json, around: Surroundings) -> None:
        """As the base class says."""
        obj.pop("status", None)

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says; completes a good one, which needs its parts to be there."""
        causes = definitions.check(obj)
        if not causes:
            definitions.complete(obj, times.now())
        if old is not None and old["spec"].get("scope") != obj["spec"].get("scope"):
            causes.append(immutable("spec.scope", obj["spec"].get("scope")))
        return causes


class WebhookStrategy(Strategy):
    """Defaults of admission webhooks."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        mutating = obj.get("kind") == "MutatingWebhookConfiguration"
        for hook in obj.get("webhooks") or ():
            default(
                hook,
                failurePolicy="Fail",
                matchPolicy="Equivalent",
                namespaceSelector={},
                objectSelector={},
                timeoutSeconds=10,
            )
            if mutating:
                default(hook, reinvocationPolicy="Never")
            for rule in hook.get("rules") or ():
                default(rule, scope="*")
            service = (hook.get("clientConfig") or {}).get("service")
            if service:
                default(service, port=443)

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        causes = []
        for index, hook in enumerate(obj.get("webhooks") or ()):
            causes += [
                required(f"webhooks[{index}].{field}")
                for field in ("sideEffects", "admissionReviewVersions", "clientConfig", "name")
                if not hook.get(field)
            ]
        return causes


class PolicyStrategy(Strategy):
    """Defaults of ValidatingAdmissionPolicies, which are stored and not enforced here."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        spec = section(obj, "spec")
        default(spec, failurePolicy="Fail")
        _default_constraints(spec.get("matchConstraints"))


class PolicyBindingStrategy(Strategy):
    """Defaults of the bindings of ValidatingAdmissionPolicies."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        _default_constraints(section(obj, "spec").get("matchResources"))


def _default_constraints(constraints: Json | None) -> None:
    if constraints is None:
        return
    default(constraints, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for rule in constraints.get("resourceRules") or ():
        default(rule, scope="*")


class RuntimeClassStrategy(Strategy):
    """The handler never changes."""

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        if not obj.get("handler"):
            return [required("handler")]
        if old is not None and old["handler"] != obj["handler"]:
            return [immutable("handler", obj["handler"])]
        return []


class PriorityClassStrategy(Strategy):
    """Preemption unless said otherwise."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        default(obj, preemptionPolicy="PreemptLowerPriority")


CLUSTER: dict[str, Strategy] = {
    "namespaces": NamespaceStrategy(),
    "nodes": NodeStrategy(),
    "certificatesigningrequests.certificates.k8s.io": SigningRequestStrategy(),
    "customresourcedefinitions.apiextensions.k8s.io": DefinitionStrategy(),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": WebhookStrategy(),
    "validatingwebhookconfigurations.admissionregistration.k8s.io": WebhookStrategy(),
    "validatingadmissionpolicies.admissionregistration.k8s.io": PolicyStrategy(),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": PolicyBindingStrategy(),
    "runtimeclasses.node.k8s.io": RuntimeClassStrategy(),
    "priorityclasses.scheduling.k8s.io": PriorityClassStrategy(),
}
