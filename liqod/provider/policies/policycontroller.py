"""Checks that the admission policies that hold consumers are effective: else nothing new is lent.

They are the installation's, and this daemon may not write them: a user may delete one, or its
binding, have it only warn, or narrow it until it holds no one. Running pods go on; no tenant and no
slice is accepted, and no namespace and no pod is made for a consumer, until they are back
(:class:`liqod.cluster.guestpolicies.GuestPolicies`).
"""

import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import ADMISSION_POLICIES, ADMISSION_POLICY_BINDINGS
from liqod.apimachinery.meta import ObjectMeta
from liqod.cluster.context import ClusterContext
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.kube.controller import Controller
from liqod.kube.selection import Selection
from liqod.kube.watched import Watched, always
from liqod.provider.policies import admission
from liqod.telemetry.events import PoliciesChanged

OURS = Selection(labels=f"{labels.MANAGED_BY_LIQOD}={labels.TRUE}")
POLICIES = "policies"
DENY = "Deny"
FAIL = "Fail"

PATIENCE = 3.0
"""Seconds for the first check; later it is tried as often."""

log = logging.getLogger(__name__)


class BindingSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a binding that decides whether its policy denies anything."""

    policy_name: str = ""
    validation_actions: tuple[str, ...] = ()
    match_resources: Any = None
    param_ref: Any = None


class PolicyBinding(msgspec.Struct, frozen=True):
    """A ValidatingAdmissionPolicyBinding."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BindingSpec = BindingSpec()

    @property
    def denies(self) -> bool:
        """True if the binding has its policy deny, on all that this matches."""
        spec = self.spec
        whole = spec.match_resources is None and spec.param_ref is None
        return whole and DENY in spec.validation_actions


class PolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a policy by which it may hold no one."""

    failure_policy: str = FAIL
    match_conditions: tuple[Any, ...] | None = None
    validations: tuple[Any, ...] | None = None


class InstalledPolicy(msgspec.Struct, frozen=True):
    """A ValidatingAdmissionPolicy."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PolicySpec = PolicySpec()

    def in_force(self, wanted: Mapping[str, Any]) -> bool:
        """True if the policy still holds consumers, as far as is seen without its validations.

        Args:
            wanted: the policy as it is installed.
        """
        spec = self.spec
        conditions = wanted["spec"].get("matchConditions", ())
        narrowed = any(each not in conditions for each in spec.match_conditions or ())
        return spec.failure_policy == FAIL and bool(spec.validations) and not narrowed


def bounds(policies: Iterable[InstalledPolicy]) -> dict[str, str]:
    """The object quotas that installations note on the policies of packages' kinds.

    An administrator's note that is no quota counts for nothing.
    """
    found: dict[str, str] = {}
    for each in policies:
        note = each.metadata.annotations.get(labels.OBJECT_QUOTA, "")
        if labels.PLUGIN not in each.metadata.labels or not note:
            continue
        with suppress(msgspec.MsgspecError):
            told = msgspec.json.decode(note, type=dict[str, str])
            found |= {key: text for key, text in told.items() if _is_bound(key, text)}
    return found


def _is_bound(key: str, text: str) -> bool:
    return key.startswith("count/") and text.isascii() and text.isdigit()


def missing(
    wanted: Iterable[Mapping[str, Any]],
    policies: Iterable[InstalledPolicy],
    bindings: Iterable[PolicyBinding],
) -> tuple[str, ...]:
    """The policies that are missing, hold no one any more, or that no binding makes deny.

    Args:
        wanted: manifests as they are installed; bindings among them are passed over.
        policies: the existing ones.
        bindings: the existing bindings.
    """
    deny = {each.spec.policy_name for each in bindings if each.denies}
    names = {
        each["metadata"]["name"]: each for each in wanted if "validations" in each.get("spec", {})
    }
    known = ((each.metadata.name, each) for each in policies)
    there = {name for name, each in known if name in names and each.in_force(names[name])}
    return tuple(sorted(names.keys() - (there & deny)))


class PolicyController(Controller[str]):
    """Keeps the state of the admission policies that restrict consumers; there is one key.

    Args:
        guest_policies: the state, kept up to date from here.
    """

    def __init__(self, context: ClusterContext, guest_policies: GuestPolicies) -> None:
        self._context = context
        self._guest_policies = guest_policies
        # A right to read them may lack: existing lending goes on without.
        self._policies = Watched(ADMISSION_POLICIES, always(POLICIES), OURS, wait=False)
        self._bindings = Watched(ADMISSION_POLICY_BINDINGS, always(POLICIES), OURS, wait=False)
        # Where there are none at all no change comes.
        super().__init__(context, "policies", self._policies, self._bindings, first=(POLICIES,))

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Work until cancelled; nothing is known afterwards."""
        try:
            await super().run(task_status=task_status)
        finally:
            self._guest_policies.known = False

    async def prepare(self) -> None:
        """Make the first check, or go on soon without."""
        with trio.move_on_after(PATIENCE):
            await self._policies.informer.synced()
            await self._bindings.informer.synced()
        await self.reconcile(POLICIES)

    async def reconcile(self, key: str) -> float | None:
        """Judge the installed policies, once they are known."""
        policies, bindings = self._policies.store, self._bindings.store
        if not (policies.synced and bindings.synced):
            return PATIENCE
        found = list(policies.values(InstalledPolicy))
        self._guest_policies.bounds = bounds(found)
        self._judge(found, bindings.values(PolicyBinding))
        return None

    def _judge(
        self, policies: Iterable[InstalledPolicy], bindings: Iterable[PolicyBinding]
    ) -> None:
        state, now = self._guest_policies, missing(admission.policies(), policies, bindings)
        state.known = True
        if now == state.missing:
            return
        state.missing = now
        self._context.hub.publish(PoliciesChanged(missing=tuple(now)))
        if now:
            log.error("%s", state.problem)
        else:
            log.info("the admission policies that hold guests are back")
