"""Declarations of a reflector's rights and bounds, here and at providers. Values only.

``liqod install``, the admission policies, the default quotas and ``docs/reference/rights.md`` are
made from these (:mod:`liqod.plugins.declared`).
"""

from collections.abc import Mapping

import msgspec

READ = ("get", "list", "watch")
"""Verbs of RBAC by which objects are followed."""


class Right(msgspec.Struct, frozen=True, kw_only=True):
    """Verbs that the daemon has on a reflector's kinds in its own cluster, and the reason.

    Attributes:
        group: API group; empty for the core.
        resources: plurals, and sub-resources such as ``gadgets/status``.
        verbs: of RBAC.
        why: the reason, for the reviewer of the rights of the installation.
        rare: when it is used, where a peering without such objects does not use it.
    """

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    rare: str = ""


class Validation(msgspec.Struct, frozen=True):
    """An expression (CEL) that has to hold, and the message of the refusal where it does not."""

    expression: str
    message: str


class AdmissionPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """A ValidatingAdmissionPolicy for what guests write of a reflector's kinds.

    Attributes:
        name: the part after ``liqod-guest-`` in its name.
        validations: the conditions to hold.
        variables: expressions that the validations share, by name.
        operations: the operations of the API server that it checks.
        controllers: whether it applies also to creators of its objects on a guest's behalf, such
            as the controller of ephemeral volumes.
    """

    name: str
    validations: tuple[Validation, ...]
    variables: Mapping[str, str] = {}
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    controllers: bool = False


class OptIn(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's consent to a kind that can hold it up: off until ``[guests]`` switches it on.

    Attributes:
        name: in small letters with hyphens, such as ``disruption-budgets``.
        word: the key by which a provider announces it to its consumers, in the rules of its slices
            (:mod:`liqod.model.crossing.guestrules`).
    """

    name: str
    word: str

    @property
    def setting(self) -> str:
        """Name of the setting under ``[guests]``."""
        return self.name.replace("-", "_")

    @property
    def role(self) -> str:
        """Name of the ClusterRole that consumers are bound to where it is on."""
        return f"liqod-{self.name}"

    @property
    def mark(self) -> str:
        """Annotation ``true``: of a VirtualNode whose provider consents, and at the provider of a
        namespace in which the right was given."""
        return f"liqod.io/{self.name}"

    def binding(self, tenant_namespace: str) -> str:
        """Name of the RoleBinding in each namespace of the consumer with that tenant namespace."""
        return f"{tenant_namespace}-{self.name}"


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's grant to its consumers for the kinds that a reflector writes, and its bounds.

    The rights follow from :attr:`Reflector.remote`: all verbs but ``deletecollection`` on the kinds
    that it writes, in the namespaces that the consumer has there.

    Attributes:
        quota: default bounds for all of these namespaces together, as ResourceQuotas name them:
            ``{"count/gadgets.example.com": "100"}``.
        policy: an admission policy, where a field reaches beyond the namespace or binds the
            provider.
        finalizers: those that the API server itself puts on created objects.
        pods: whether it writes ShadowPods, which have a policy of their own; the labels and
            annotations of all else are held to the lists of ``[guests]``.
        opt_in: the provider's consent, where it has to give it first.
    """

    quota: Mapping[str, str] = {}
    policy: AdmissionPolicy | None = None
    finalizers: tuple[str, ...] = ()
    pods: bool = False
    opt_in: OptIn | None = None
