"""Everything that a cluster holds, by name: what a test compares before and after.

Garbage of liqod's shows up here, without the test having to know its kinds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.testbed.api import Api
from tests.testbed.errors import Missing, TestbedError

# What the cluster itself makes and drops at its own pace.
PASSING = {
    "events",
    "leases",
    "endpoints",
    "endpointslices",
    "componentstatuses",
    "controllerrevisions",
    "ipaddresses",
    "apiservices",
}
# What its controllers put into every namespace, a moment after that is there.
EVERYWHERE = {("configmaps", "kube-root-ca.crt"), ("serviceaccounts", "default")}


# What a daemon tells of its own cluster for as long as it is installed, by resource and namespace.
OWN = {("networks.ipam.liqo.io", "liqo")}


class Item(NamedTuple):
    """One object."""

    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.resource} {'/'.join(filter(None, (self.namespace, self.name)))}"


def take(api: Api) -> set[Item]:
    """Every object of every kind that can be listed."""
    return {item for path, resource in _kinds(api) for item in _items(api, path, resource)}


def wait_for(api: Api, wanted: set[Item], seconds: float) -> None:
    """Waits until a cluster holds exactly this; raises `TestbedError` with what differs."""
    deadline = time.monotonic() + seconds
    while (now := take(api)) != wanted:
        if time.monotonic() > deadline:
            left = [f"left behind: {item}" for item in sorted(now - wanted)]
            gone = [f"gone: {item}" for item in sorted(wanted - now)]
            raise TestbedError("\n".join((f"after {seconds:.0f} s", *left, *gone)))
        _follow(api, now, wanted, deadline)


def _follow(api: Api, now: set[Item], wanted: set[Item], deadline: float) -> None:
    """Looks again only at the kinds that differ, until none of those does or it is too late."""
    paths = {resource: path for path, resource in _kinds(api)}
    differing = {item.resource for item in now ^ wanted}
    while differing and time.monotonic() <= deadline:
        time.sleep(0.2)
        now = {item for item in now if item.resource not in differing}
        for resource in differing & paths.keys():
            now.update(_items(api, paths[resource], resource))
        differing = {item.resource for item in now ^ wanted} & paths.keys()


def _kinds(api: Api) -> Iterator[tuple[str, str]]:
    """The list path and the full resource name of each kind."""
    roots = {"/api/v1": ""}
    for group in api.get("/apis")["groups"]:
        roots[f"/apis/{group['preferredVersion']['groupVersion']}"] = group["name"]
    for root, group in roots.items():
        known: dict[str, Any] = {}
        with contextlib.suppress(Missing):  # the last of its definitions may have gone since
            known = api.get(root)
        for resource in known.get("resources", ()):
            name = resource["name"]
            if "/" not in name and name not in PASSING and "list" in resource["verbs"]:
                yield f"{root}/{name}", f"{name}.{group}" if group else name


def _items(api: Api, path: str, resource: str) -> Iterator[Item]:
    answer: dict[str, Any] = {}
    with contextlib.suppress(Missing):  # its definition may have gone since
        answer = api.get(path)
    for one in answer.get("items") or ():
        metadata = one["metadata"]
        item = Item(resource, metadata.get("namespace", ""), metadata["name"])
        if item[::2] not in EVERYWHERE and item[:2] not in OWN:
            yield item
