"""The verdict on a ResourceSlice: the resources that it is granted, as a function of values.

Class ``default`` grants the request and fills the gaps, or denies it where the consumer's slices
would have more than ``[guests] max_resources`` (:mod:`.allocation`); any other class is left to a
controller of its own, which writes ``status.resources`` and the condition ``Resources`` in this
cluster. A grant of one class is no grant of another: a slice whose class changes has nothing until
it is granted anew. The verdict of this side is the present result of this function, not a status
that others may write.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from liqod.config import ProviderSettings
from liqod.errors import ConfigError
from liqod.model.objects import conditions, quantities
from liqod.provider.slices.allocation import Allocation
from liqod.resources.authentication import (
    ACCEPTED,
    AUTHENTICATION,
    CORDONED,
    DEFAULT_CLASS,
    DENIED,
    DRAINED,
    GROWTH_DENIED,
    RESOURCES,
    AuthParams,
    ResourceSlice,
    SliceCondition,
    Tenant,
)

NO_BOUNDS: Final = Allocation()


class SliceVerdict(msgspec.Struct, frozen=True):
    """The decision about a slice, before anything is signed.

    Attributes:
        refusal: the reason that it gets no certificate; empty if it gets one.
        granted: the quantities; None where a class of its own decides.
        denial: the reason that it gets a certificate but no resources; empty if it gets them.
        short: the reason that it keeps its former grant, not its request; empty if it need not.
    """

    refusal: str = ""
    granted: dict[str, int | str] | None = None
    denial: str = ""
    short: str = ""


def judge(
    wanted: ResourceSlice,
    tenant: Tenant | None,
    problem: str | None,
    settings: ProviderSettings,
    *,
    served: bool,
    allocation: Allocation = NO_BOUNDS,
) -> SliceVerdict:
    """Decide about a slice.

    Args:
        wanted: the replica.
        tenant: the accepted Tenant, if any.
        problem: the result of :func:`liqod.provider.tenants.trust.slice_problem`.
        settings: those of lending.
        served: whether something was given for this slice before; a cordon denies the resources of
            those alone for which nothing was.
        allocation: its share beside all slices of the consumer.
    """
    condition = tenant.spec.tenant_condition if tenant is not None else ""
    if problem is None and condition == DRAINED:
        problem = "the tenant is drained"
    if problem is not None:
        return SliceVerdict(refusal=problem)
    if condition == CORDONED and not served:
        # As Liqo: `liqoctl create resourceslice` waits for the first verdict alone.
        denial = "the tenant is cordoned: it gets nothing for new slices"
        return SliceVerdict(granted={}, denial=denial)
    if not is_default(wanted):
        return SliceVerdict()
    if not settings.accept_default_class:
        return SliceVerdict(granted={}, denial="slices of the default class are not accepted here")
    granted = requested_resources(wanted, settings)
    problem = _nonsense(granted) or allocation.excess
    if problem and allocation.kept is not None:
        return SliceVerdict(granted=allocation.kept, short=problem)
    return SliceVerdict(granted={} if problem else granted, denial=problem)


def _nonsense(asked: Mapping[str, int | str]) -> str:
    """The reason why a request can never be granted; empty if it can be granted."""
    try:
        negative = sorted(n for n, amount in quantities.parse_all(asked).items() if amount < 0)
    except ConfigError as error:
        return str(error)
    return f"negative quantities: {', '.join(negative)}" if negative else ""


def requested_resources(wanted: ResourceSlice, settings: ProviderSettings) -> dict[str, int | str]:
    """The resources that a slice of the default class requests, with this cluster's defaults."""
    return {**settings.default_resources, **wanted.spec.resources}


def is_default(wanted: ResourceSlice) -> bool:
    """True if this controller decides about the slice's resources."""
    return class_of(wanted) == DEFAULT_CLASS


def class_of(wanted: ResourceSlice) -> str:
    """The class that grants the slice its resources."""
    return wanted.spec.class_name or DEFAULT_CLASS


def status_of(
    live: Mapping[str, Any],
    verdict: SliceVerdict,
    given: AuthParams | None,
    settings: ProviderSettings,
    now: str,
    *,
    theirs: bool = True,
) -> dict[str, Any]:
    """The whole status that a slice must have.

    Args:
        live: its status now, as JSON; of a class of its own, that class's values are kept.
        verdict: the decision.
        given: the access, where there is no refusal.
        settings: those of lending.
        now: RFC 3339 time, for conditions that change.
        theirs: whether a class of its own can have written what is there; False where it was
            granted while the slice was of another.
    """
    status: dict[str, Any] = {}
    if verdict.granted is None and not verdict.refusal and theirs:
        kept = set(live) - {"conditions", "authParams"}
        status = {key: live[key] for key in kept}
    conditions = [_condition(AUTHENTICATION, verdict.refusal, live, now)]
    if given is not None and not verdict.refusal:
        status["authParams"] = msgspec.to_builtins(given)
    if verdict.granted is not None or verdict.refusal:
        problem = verdict.refusal or verdict.denial
        terms = _terms(settings)
        made = _condition(RESOURCES, problem, live, now, short=verdict.short, terms=terms)
        conditions.append(made)
    elif theirs:
        conditions += [c for c in live.get("conditions", ()) if c.get("type") == RESOURCES]
    if verdict.granted:
        status["resources"] = verdict.granted
        if settings.node_labels:
            status["nodeLabels"] = dict(settings.node_labels)
        status |= _classes(settings)
    status["conditions"] = conditions
    return status


def granted_in(status: Mapping[str, Any]) -> dict[str, int | str] | None:
    """The quantities of a status whose verdicts both are Accepted, or None."""
    verdicts = {c.get("type"): c.get("status") for c in status.get("conditions", ())}
    if verdicts.get(AUTHENTICATION) != ACCEPTED or verdicts.get(RESOURCES) != ACCEPTED:
        return None
    return dict(status.get("resources", {}))


def _classes(settings: ProviderSettings) -> dict[str, Any]:
    """The classes offered, as Liqo writes them: the first is the default."""
    offered = {
        "storageClass": settings.storage_classes,
        "ingressClass": settings.ingress_classes,
        "loadBalancerClass": settings.load_balancer_classes,
    }
    return {
        f"{what}es": [
            {f"{what}Name": name, **({} if place else {"default": True})}
            for place, name in enumerate(names)
        ]
        for what, names in offered.items()
        if names
    }


def _terms(settings: ProviderSettings) -> str:
    """The Pod Security level of every pod of the slice, which else only a refusal would show."""
    if settings.pod_security == "privileged":
        return ""
    return f"; pods must fit the Pod Security level {settings.pod_security}"


def _condition(
    type_: str,
    problem: str,
    live: Mapping[str, Any],
    now: str,
    *,
    short: str = "",
    terms: str = "",
) -> dict[str, Any]:
    what = "authentication" if type_ == AUTHENTICATION else "resources"
    verdict = DENIED if problem else ACCEPTED
    made = SliceCondition(
        type=type_,
        status=verdict,
        reason=GROWTH_DENIED if short else f"ResourceSlice{what.capitalize()}{verdict}",
        message=problem or short or f"ResourceSlice {what} accepted{terms}",
    )
    return conditions.dated(msgspec.to_builtins(made), live.get("conditions"), now)
