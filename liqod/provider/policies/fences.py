"""Sees that the admission policies that hold consumers are in force: else nothing new is lent.

They are the installation's, and this daemon may not write them: somebody may delete one, or its
binding, have it only warn, or narrow it until it holds nobody. What runs already goes on; no tenant
and no slice is accepted, and no namespace and no pod is made for a consumer, until they are back
(:class:`liqod.fence.Fence`).
"""

import logging
import math
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import msgspec
import trio

from liqod.context import ClusterContext
from liqod.kube.cache.store import Change
from liqod.kube.kinds import ADMISSION_POLICIES, ADMISSION_POLICY_BINDINGS
from liqod.kube.meta import ObjectMeta
from liqod.kube.selection import Selection
from liqod.model import labels
from liqod.provider.policies import admission

SELECTOR = f"{labels.MANAGED_BY_LIQOD}={labels.TRUE}"
DENY = "Deny"
FAIL = "Fail"

PATIENCE = 3.0
"""Seconds for the first look; later it is tried as often."""

log = logging.getLogger(__name__)


class BindingSpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a binding that decides whether its policy denies anything."""

    policy_name: str = ""
    validation_actions: tuple[str, ...] = ()
    match_resources: Any = None
    param_ref: Any = None


class Binding(msgspec.Struct, frozen=True):
    """A ValidatingAdmissionPolicyBinding."""

    metadata: ObjectMeta = ObjectMeta()
    spec: BindingSpec = BindingSpec()

    @property
    def denies(self) -> bool:
        """Whether it has its policy deny, wherever that looks."""
        spec = self.spec
        whole = spec.match_resources is None and spec.param_ref is None
        return whole and DENY in spec.validation_actions


class PolicySpec(msgspec.Struct, frozen=True, rename="camel"):
    """The part of a policy by which it may hold nobody."""

    failure_policy: str = FAIL
    match_conditions: tuple[Any, ...] | None = None
    validations: tuple[Any, ...] | None = None


class Policy(msgspec.Struct, frozen=True):
    """A ValidatingAdmissionPolicy."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PolicySpec = PolicySpec()

    def stands(self, wanted: Mapping[str, Any]) -> bool:
        """Whether it still holds somebody, as far as can be told without reading its expressions.

        Args:
            wanted: the policy as it is installed.
        """
        spec = self.spec
        conditions = len(wanted["spec"].get("matchConditions", ()))
        narrowed = len(spec.match_conditions or ()) > conditions
        return spec.failure_policy == FAIL and bool(spec.validations) and not narrowed


def missing(
    wanted: Iterable[Mapping[str, Any]],
    policies: Iterable[Policy],
    bindings: Iterable[Binding],
) -> tuple[str, ...]:
    """The policies that are not there, hold nobody any more, or that nothing makes deny.

    Args:
        wanted: manifests as they are installed; bindings among them are passed over.
        policies: those that are there.
        bindings: the bindings that are there.
    """
    deny = {each.spec.policy_name for each in bindings if each.denies}
    names = {
        each["metadata"]["name"]: each for each in wanted if "validations" in each.get("spec", {})
    }
    known = ((each.metadata.name, each) for each in policies)
    there = {name for name, each in known if name in names and each.stands(names[name])}
    return tuple(sorted(names.keys() - (there & deny)))


class Fences:
    """Keeps what :attr:`liqod.context.ClusterContext.fence` says true."""

    def __init__(self, home: ClusterContext) -> None:
        self._home = home

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Look until cancelled; started with the first look, or soon, as a right may lack."""
        share = self._home.informers.share
        async with (
            share(ADMISSION_POLICIES, Selection(labels=SELECTOR), wait=False) as policies,
            share(ADMISSION_POLICY_BINDINGS, Selection(labels=SELECTOR), wait=False) as bindings,
        ):
            changed = trio.Event()

            def stir(change: Change) -> None:
                changed.set()

            stops = [each.subscribe(stir) for each in (policies, bindings)]
            try:
                with trio.move_on_after(PATIENCE) as patience:
                    await policies.synced()
                    await bindings.synced()
                    # None at all there is no change of.
                    self._judge(policies.store.values(Policy), bindings.store.values(Binding))
                task_status.started()
                late = patience.cancelled_caught
                while True:
                    with trio.move_on_after(PATIENCE if late else math.inf):
                        await changed.wait()
                    changed = trio.Event()
                    if policies.store.synced and bindings.store.synced:
                        late = False
                        self._judge(policies.store.values(Policy), bindings.store.values(Binding))
            finally:
                self._home.fence.known = False
                for stop in stops:
                    stop()
        raise AssertionError("it ends by cancellation only")

    def _judge(self, policies: Iterable[Policy], bindings: Iterable[Binding]) -> None:
        fence, now = self._home.fence, missing(admission.policies(), policies, bindings)
        fence.known = True
        if now == fence.missing:
            return
        fence.missing = now
        self._home.hub.publish("policies", missing=list(now))
        if now:
            log.error("%s", fence.problem)
        else:
            log.info("the admission policies that hold guests are back")
