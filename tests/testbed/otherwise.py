"""`python -m tests.testbed.otherwise future|past run …`: a daemon of another version than this.

It is this one, but for what crosses to the peer. One of the future says more than this version
knows: labels, annotations, fields, conditions and phases. One of the past does not say what liqod
adds to Liqo's resources.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from liqod.__main__ import main
from liqod.apimachinery.kinds import Kind
from liqod.kube import client
from liqod.resources import NAMESPACE_MAPS, RENEWS, RESOURCE_SLICES, SHADOW_PODS, TENANTS

Json = dict[str, Any]
Change = Callable[[Kind, Json], Json]

NEWS = "from-the-future"
FIELD = "fromTheFuture"
CROSSING = (TENANTS, RESOURCE_SLICES, NAMESPACE_MAPS, RENEWS)
EXTENSION = "liqod.io/"
"""Prefix of what liqod adds to Liqo's labels and annotations."""


def future(kind: Kind, obj: Json) -> Json:
    """Returns an object, or a patch, as a later version would write it."""
    if kind not in (*CROSSING, SHADOW_PODS):
        return obj
    made = dict(obj)
    if "metadata" in obj and "spec" in obj:
        meta = dict(obj["metadata"])
        # Labels of liqod's are closed to guests, whatever a later version's are: a ShadowPod, whose
        # labels the pod has, says what is new by annotations.
        for marks in ("annotations",) if kind == SHADOW_PODS else ("labels", "annotations"):
            meta[marks] = {**(meta.get(marks) or {}), f"{EXTENSION}{NEWS}": "yes"}
        made |= {"metadata": meta, "spec": {**obj["spec"], FIELD: {"level": 9}}}
    if "status" in obj:
        made["status"] = status = {**obj["status"], FIELD: "unheard of"}
        if kind == RESOURCE_SLICES and "conditions" in status:
            green = {"type": "Sustainability", "status": "Green"}
            status["conditions"] = [*status["conditions"], green]
        if kind == NAMESPACE_MAPS and "currentMapping" in status:
            entry = {"remoteNamespace": NEWS, "phase": "Hibernating"}
            status["currentMapping"] = {**status["currentMapping"], NEWS: entry}
    return made


def past(kind: Kind, obj: Json) -> Json:
    """Returns an object as an earlier version would write it."""
    made = dict(obj)
    if kind in CROSSING and "metadata" in obj and "spec" in obj:
        meta = dict(obj["metadata"])
        for marks in ("labels", "annotations"):
            found: Mapping[str, str] = meta.get(marks) or {}
            meta[marks] = {k: v for k, v in found.items() if not k.startswith(EXTENSION)}
        made["metadata"] = meta
    if kind == SHADOW_PODS and "status" in obj:
        made["status"] = {
            key: value for key, value in obj["status"].items() if key not in ("reason", "message")
        }
    return made


def pretend(change: Change) -> None:
    """Has every object and patch that the daemon writes changed on its way."""
    patch = client.Client.patch

    def other(create: Any) -> Any:
        async def created(self: Any, kind: Kind, obj: Any, *more: Any, **options: Any) -> Any:
            plain = msgspec.json.decode(obj) if isinstance(obj, bytes) else msgspec.to_builtins(obj)
            return await create(self, kind, change(kind, plain), *more, **options)

        return created

    async def other_patch(
        self: Any, kind: Kind, name: str, body: Any, *more: Any, **options: Any
    ) -> Any:
        plain = msgspec.json.decode(body) if isinstance(body, bytes) else dict(body)
        return await patch(self, kind, name, change(kind, plain), *more, **options)

    made = {name: other(getattr(client.Client, name)) for name in ("create", "create_full")}
    for name, method in {**made, "patch": other_patch}.items():
        setattr(client.Client, name, method)


if __name__ == "__main__":
    pretend({"future": future, "past": past}[sys.argv.pop(1)])
    sys.exit(main())
