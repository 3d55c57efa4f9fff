"""Computes a pod's cost for a quota, and checks that it has its requests and limits.

The cost is the scheduler's (``k8s.io/component-helpers/resource``): containers and restartable
init containers (sidecars) run together; every other init container runs alone, beside the sidecars
started before it; the larger of both counts, and the runtime's overhead on top. Limits replace
missing requests, as the API server fills them in. The spec is a consumer's: nothing in it is
trusted.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from liqod.errors import ConfigError
from liqod.model.objects import quantities
from liqod.model.objects.quantities import Amounts
from liqod.resources import offloading

PODS: Final = "pods"
Running = Mapping[str, Mapping[str, Any]]
"""The resources that containers have now, by their names."""
_STATED: Final = ("cpu", "memory")


# No PodSpec: of a consumer's spec only the counted fields decide.
class _QuotaResources(msgspec.Struct, frozen=True):
    requests: dict[str, int | str] | None = None
    limits: dict[str, int | str] | None = None


class _QuotaContainer(msgspec.Struct, frozen=True, rename="camel"):
    name: str = ""
    resources: _QuotaResources | None = None
    restart_policy: str | None = None


class _QuotaPodSpec(msgspec.Struct, frozen=True, rename="camel"):
    containers: tuple[_QuotaContainer, ...] | None = None
    init_containers: tuple[_QuotaContainer, ...] | None = None
    overhead: dict[str, int | str] | None = None
    resources: _QuotaResources | None = None


def pod_cost(spec: Mapping[str, Any], running: Running | None = None) -> Amounts:
    """The amounts that a pod of that spec takes of a quota, ``pods: 1`` included.

    Args:
        spec: the pod's.
        running: present resources of its containers, which count where they are more (a resize).

    Raises:
        ConfigError: the spec is none, or one of its quantities is not.
    """
    pod, now = _read(spec), running or {}
    together = quantities.total(_booked(each, now) for each in pod.containers or ())
    sidecars: Amounts = {}
    alone: list[Amounts] = []
    for each in pod.init_containers or ():
        requests = _booked(each, now)
        if each.restart_policy == "Always":
            sidecars = quantities.total([sidecars, requests])
            alone.append(sidecars)
        else:
            alone.append(quantities.total([sidecars, requests]))
    together = quantities.total([together, sidecars])
    # A pod-level request covers its containers'; the larger of both cannot be too little.
    cost = quantities.largest([together, *alone, _requests(pod.resources)])
    overhead = {name: max(0, n) for name, n in quantities.parse_all(pod.overhead).items()}
    return {**quantities.total([cost, overhead]), PODS: quantities.NANO}


def complaint(spec: Mapping[str, Any], enforcement: str) -> str:
    """The request or limit that a pod lacks for an enforcement, in one sentence; "" for none.

    ``Soft``: every container has requests of cpu and memory. ``Hard``: and its limits equal its
    requests. Any other enforcement requires nothing. Resources of the pod as a whole are counted
    (:func:`pod_cost`), but are no limit: an API server without the field drops it.

    Raises:
        ConfigError: the spec is none, or one of its quantities is not.
    """
    if enforcement not in (offloading.ENFORCE_SOFT, offloading.ENFORCE_HARD):
        return ""
    pod = _read(spec)
    for each in (*(pod.containers or ()), *(pod.init_containers or ())):
        requests = _requests(each.resources)
        missing = [name for name in _STATED if name not in requests]
        if missing:
            lacks = f"container {each.name} does not state its request of {' and '.join(missing)}"
            return f"{lacks} (for the pod as a whole is not enough)" if pod.resources else lacks
        if enforcement == offloading.ENFORCE_HARD:
            limits = quantities.parse_all(each.resources.limits if each.resources else None)
            other = sorted(name for name, n in requests.items() if limits.get(name) != n)
            if other:
                return f"limit and request of {' and '.join(other)} differ in container {each.name}"
    return ""


def _read(spec: Mapping[str, Any]) -> _QuotaPodSpec:
    try:
        return msgspec.convert(spec, type=_QuotaPodSpec)
    except msgspec.ValidationError as error:
        raise ConfigError(f"this is no pod spec: {error}") from error


def _booked(container: _QuotaContainer, running: Running) -> Amounts:
    """The larger of a container's requests and the resources that it has now."""
    asked, now = _requests(container.resources), running.get(container.name)
    if now is None:
        return asked
    try:
        had = _requests(msgspec.convert(now, type=_QuotaResources))
    except msgspec.ValidationError as error:
        raise ConfigError(f"these are no resources: {error}") from error
    return quantities.largest([asked, had])


def _requests(resources: _QuotaResources | None) -> Amounts:
    """Requests of a container, from its limits where it states none; never below 0."""
    if resources is None:
        return {}
    stated = {**(resources.limits or {}), **(resources.requests or {})}
    return {name: max(0, amount) for name, amount in quantities.parse_all(stated).items()}
