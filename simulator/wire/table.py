"""Tables, as ``kubectl get`` asks for them: columns of a kind, cells of its objects."""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from liqod.kube import times
from simulator.catalog import Column, Resource
from simulator.storage.storage import Item

Json = dict[str, Any]


def table_of(resource: Resource, items: Iterable[Item], include: str) -> Json:
    """A ``meta.k8s.io/v1`` Table; ``include`` is ``Metadata``, ``Object`` or ``None``."""
    columns = resource.columns or (
        Column("Name", ".metadata.name"),
        Column("Age", "age"),
    )
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {},
        "columnDefinitions": [
            {
                "name": column.name,
                "type": column.type if column.type != "date" else "date",
                "format": "name" if column.name == "Name" else "",
                "description": "",
                "priority": column.priority,
            }
            for column in columns
        ],
        "rows": [_row(columns, item, include) for item in items],
    }


def _row(columns: tuple[Column, ...], item: Item, include: str) -> Json:
    obj = item.decode()
    row: Json = {"cells": [_cell(column, obj) for column in columns]}
    if include == "Object":
        row["object"] = obj
    elif include != "None":
        row["object"] = {
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": obj["metadata"],
        }
    return row


def _cell(column: Column, obj: Json) -> object:
    if not column.path.startswith("."):
        return _FUNCTIONS[column.path](obj)
    value = look_up(obj, column.path)
    if column.type == "date":
        return age(value) if isinstance(value, str) else "<unknown>"
    if value is None:
        return 0 if column.type == "integer" and column.path.startswith(".status") else "<none>"
    if isinstance(value, dict | list):
        return msgspec.json.encode(value).decode()
    if isinstance(value, bool) and column.type == "string":
        return str(value).lower()
    return value


_STEP = re.compile(
    r"\.((?:\\.|[^.\[\]\\])+)|\[(\d+)\]|\['([^']*)'\]|\[\?\(@\.(\w+)\s*==\s*[\"']([^\"']*)[\"']\)\]"
)


def look_up(value: Any, path: str) -> Any:
    """The value at a simple JSONPath (fields, indexes, one-field filters), or None."""
    for match in _STEP.finditer(path):
        field, index, quoted, key, wanted = match.groups()
        name = quoted if field is None else field.replace("\\.", ".")
        if index is not None:
            value = (
                value[int(index)] if isinstance(value, list) and len(value) > int(index) else None
            )
        elif key is not None:
            found = value if isinstance(value, list) else []
            value = next((each for each in found if str(each.get(key)) == wanted), None)
        else:
            value = value.get(name) if isinstance(value, dict) else None
        if value is None:
            return None
    return value


def age(stamp: str | None) -> str:
    """The age of a timestamp, as kubectl writes it."""
    if not stamp:
        return "<unknown>"
    seconds = int(times.age(stamp))
    if seconds < 120:
        return f"{seconds}s"
    minutes = seconds // 60
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def _pod_status(obj: Json) -> str:
    status = obj.get("status") or {}
    reason: str = status.get("reason") or status.get("phase", "")
    for container in status.get("containerStatuses") or ():
        state = container.get("state") or {}
        found = (state.get("waiting") or {}).get("reason") or (state.get("terminated") or {}).get(
            "reason"
        )
        reason = found or reason
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else reason


def _pod_ready(obj: Json) -> str:
    statuses = (obj.get("status") or {}).get("containerStatuses") or ()
    ready = sum(1 for each in statuses if each.get("ready"))
    return f"{ready}/{len(obj['spec'].get('containers') or ())}"


def _pod_restarts(obj: Json) -> str:
    statuses = (obj.get("status") or {}).get("containerStatuses") or ()
    return str(sum(each.get("restartCount", 0) for each in statuses))


def _node_status(obj: Json) -> str:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    ready = next((each["status"] for each in conditions if each["type"] == "Ready"), "Unknown")
    text = {"True": "Ready", "False": "NotReady"}.get(ready, "NotReady")
    return text + (",SchedulingDisabled" if obj["spec"].get("unschedulable") else "")


def _node_roles(obj: Json) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = sorted(
        {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}
        | ({labels["kubernetes.io/role"]} if labels.get("kubernetes.io/role") else set())
    )
    return ",".join(roles) or "<none>"


def _service_ports(obj: Json) -> str:
    ports = obj["spec"].get("ports") or ()
    return (
        ",".join(
            f"{port['port']}"
            + (f":{port['nodePort']}" if "nodePort" in port else "")
            + f"/{port['protocol']}"
            for port in ports
        )
        or "<none>"
    )


def _workload_ready(obj: Json) -> str:
    ready = (obj.get("status") or {}).get("readyReplicas", 0)
    return f"{ready}/{obj['spec'].get('replicas', 0)}"


def _slice_endpoints(obj: Json) -> str:
    found = [address for each in obj.get("endpoints") or () for address in each["addresses"]]
    shown = ",".join(found[:3])
    return (shown + (f" + {len(found) - 3} more..." if len(found) > 3 else "")) or "<unset>"


def _request_condition(obj: Json) -> str:
    status = obj.get("status") or {}
    types = [each["type"] for each in status.get("conditions") or ()]
    if status.get("certificate"):
        types.append("Issued")
    return ",".join(types) or "Pending"


def _event_object(obj: Json) -> str:
    involved = obj.get("involvedObject") or {}
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


_FUNCTIONS: dict[str, Callable[[Json], object]] = {
    "age": lambda obj: age(obj["metadata"].get("creationTimestamp")),
    "event_age": lambda obj: age(
        obj.get("lastTimestamp") or obj["metadata"].get("creationTimestamp")
    ),
    "event_object": _event_object,
    "data_count": lambda obj: len(obj.get("data") or {}) + len(obj.get("binaryData") or {}),
    "node_status": _node_status,
    "node_roles": _node_roles,
    "pod_ready": _pod_ready,
    "pod_status": _pod_status,
    "pod_restarts": _pod_restarts,
    "request_condition": _request_condition,
    "role_ref": lambda obj: f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}",
    "service_ports": _service_ports,
    "slice_endpoints": _slice_endpoints,
    "slice_ports": lambda obj: (
        ",".join(str(p.get("port")) for p in obj.get("ports") or ()) or "<unset>"
    ),
    "workload_ready": _workload_ready,
}
