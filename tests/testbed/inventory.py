"""Everything that a cluster holds, by name: what a test compares before and after.

Whatever liqod leaves behind shows up here, without the test having to know its kinds.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.testbed.api import Api
from tests.testbed.errors import TestbedError

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
        time.sleep(0.5)


def _kinds(api: Api) -> Iterator[tuple[str, str]]:
    """The list path and the full resource name of each kind."""
    roots = {"/api/v1": ""}
    for group in api.get("/apis")["groups"]:
        roots[f"/apis/{group['preferredVersion']['groupVersion']}"] = group["name"]
    for root, group in roots.items():
        for resource in api.get(root)["resources"]:
            name = resource["name"]
            if "/" not in name and name not in PASSING and "list" in resource["verbs"]:
                yield f"{root}/{name}", f"{name}.{group}" if group else name


def _items(api: Api, path: str, resource: str) -> Iterator[Item]:
    answer: dict[str, Any] = api.get(path)
    for one in answer.get("items") or ():
        metadata = one["metadata"]
        yield Item(resource, metadata.get("namespace", ""), metadata["name"])
