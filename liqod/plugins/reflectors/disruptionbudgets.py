"""PodDisruptionBudgets hold evictions at a peer, too: a drain there waits as one here would.

Only this cluster's controllers know how many pods there should be, so the budget over there is a
number: how many of the pods at that peer have to be available, by what the budget here allows at
the moment. It follows both statuses, which the controllers of the two clusters keep. Where a
budget's pods are at several places, each may disrupt its part of what is allowed, in proportion to
its pods, and at least one while any is allowed: a drain at one peer would else wait for ever. So
peers that evict at the same moment may together disrupt more, by one for each peer at the most; as
soon as the first is known here, the others have none left.

A provider has to agree first, since a budget holds up the drain of its nodes, too. A number is what
Kubernetes can hold there: the pods of guests have no controller that says how many of them there
should be, as a percentage and ``maxUnavailable`` need, and so it would allow no eviction at all.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from liqod.apimachinery.kinds import POD_DISRUPTION_BUDGETS
from liqod.model.crossing.fields import Fate, Field, copied, crossing
from liqod.plugins.contracts import (
    READ,
    AdmissionPolicy,
    Grant,
    Json,
    OptIn,
    Plan,
    Reflector,
    RemoteKind,
    Right,
    Validation,
    View,
    Watch,
    Write,
)
from liqod.plugins.crossing import manifest
from liqod.plugins.hookspecs import hookimpl

_A_NUMBER: Final = "it is the number of pods at the peer that have to be available there"
FIELDS: Final[Mapping[str, Field]] = {
    **crossing("selector", "unhealthyPodEvictionPolicy"),
    "minAvailable": Field(Fate.CHANGED, _A_NUMBER),
    "maxUnavailable": Field(Fate.CHANGED, _A_NUMBER),
}
"""The fate of each field of a budget's ``spec`` at a peer."""
KEPT: Final = copied(FIELDS)
OPT_IN: Final = OptIn(name="disruption-budgets", word="budgets")


class DisruptionBudgetStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status by a disruption controller (policy/v1 PodDisruptionBudgetStatus).

    Attributes:
        expected_pods: that the budget counts.
        current_healthy: of them, those that are Ready.
        desired_healthy: that have to be.
        disruptions_allowed: at the moment.
        observed_generation: of the budget, when that was so; 0 for nothing said yet.
    """

    expected_pods: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    disruptions_allowed: int = 0
    observed_generation: int = 0


def outgoing(budget: Json, view: View) -> Plan:
    """The same budget over there, as the number of pods that have to be available there."""
    here = read(budget)
    if here.observed_generation != budget["metadata"].get("generation", 0):
        return Plan(hold=True)  # its status is of another budget than it is now
    found = view.remote(POD_DISRUPTION_BUDGETS)
    there = read(found[0]) if found else DisruptionBudgetStatus()
    spec = budget.get("spec") or {}
    kept = {field: spec[field] for field in KEPT if spec.get(field) is not None}
    kept["minAvailable"] = available(here, there)
    name = budget["metadata"]["name"]
    return Plan(remote=(manifest(POD_DISRUPTION_BUDGETS, name, budget, view, spec=kept),))


def available(here: DisruptionBudgetStatus, there: DisruptionBudgetStatus) -> int:
    """How many of a peer's pods have to be available there.

    Args:
        here: of the whole budget, which counts the peer's pods, too.
        there: of the peer's pods alone.
    """
    if not there.observed_generation:
        return here.expected_pods  # nothing may go until the peer has counted
    pods = there.expected_pods
    # What both sides see missing there is missing already, and no more of it can be disrupted. What
    # one of them sees alone may have come back or may not be told yet: it counts as available.
    missing = min(
        pods - there.current_healthy,
        here.expected_pods - here.current_healthy,
        here.expected_pods - here.desired_healthy,
    )
    return max(0, pods - max(0, missing) - share(here, pods))


def share(here: DisruptionBudgetStatus, pods: int) -> int:
    """How many of a peer's pods may be disrupted, of all that the budget here allows."""
    allowed = here.disruptions_allowed
    if allowed <= 0 or pods <= 0:
        return 0
    part = allowed * pods // max(here.expected_pods, 1)
    return min(allowed, max(1, part))


def read(budget: Json) -> DisruptionBudgetStatus:
    """A budget's status, whoever wrote it; one that cannot be read says nothing."""
    status: Any = budget.get("status") or {}
    try:
        found = msgspec.convert(status, DisruptionBudgetStatus)
    except msgspec.ValidationError:
        return DisruptionBudgetStatus()
    # A peer's word becomes part of what is written there; the fields but for the last are int32.
    counts = msgspec.structs.astuple(found)[:-1]
    return found if all(0 <= count < 1 << 31 for count in counts) else DisruptionBudgetStatus()


REFLECTOR = Reflector(
    name="disruptionbudgets",
    kind=POD_DISRUPTION_BUDGETS,
    outgoing=outgoing,
    remote=(RemoteKind(kind=POD_DISRUPTION_BUDGETS, write=Write.MERGE, watch=Watch.FULL),),
    offered=lambda node: OPT_IN.word in node.takes,
    rights=(
        Right(
            group=POD_DISRUPTION_BUDGETS.group,
            resources=("poddisruptionbudgets",),
            verbs=(*READ, "delete"),
            why="PodDisruptionBudgets of offloaded namespaces are reflected, and those of "
            "consumers that may have none any more are removed",
            rare="a provider takes PodDisruptionBudgets, or takes them no more",
        ),
    ),
    grant=Grant(
        quota={"count/poddisruptionbudgets.policy": "200"},
        policy=AdmissionPolicy(
            name="budgets",
            validations=(
                Validation(
                    "(!has(object.spec.maxUnavailable) && has(object.spec.minAvailable)"
                    " && type(object.spec.minAvailable) == int)",
                    "a consumer's budget says how many pods have to be available, as a number "
                    "(minAvailable)",
                ),
            ),
        ),
        opt_in=OPT_IN,
    ),
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """PodDisruptionBudgets."""
    return [REFLECTOR]
