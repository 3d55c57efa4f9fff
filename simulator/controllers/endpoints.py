"""EndpointSlices: for each Service with a selector, the addresses of the pods it selects."""

from typing import Any

from liqod.kube import times
from simulator import builtins
from simulator.controllers.manager import Manager
from simulator.controllers.replicas import reference
from simulator.nodes.budgets import is_ready
from simulator.storage import deletion
from simulator.storage.deletion import DeleteOptions
from simulator.storage.registry import Registry
from simulator.storage.selectors import labels_of
from simulator.storage.storage import Change, Item
from simulator.texts import suffix

Json = dict[str, Any]
Key = tuple[str, str]

MANAGED = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
SERVICE = "kubernetes.io/service-name"
HEADLESS = "service.kubernetes.io/headless"
LARGEST = 100
SETTLE = 0.02
_TERMINAL = ("Succeeded", "Failed")


class EndpointSlices:
    """Keeps the slices of Services; keys are the Services' namespace and name."""

    def __init__(self, registry: Registry, manager: Manager) -> None:
        self._registry = registry
        self._manager = manager
        self._selectors: dict[Key, dict[str, str]] = {}
        storage = registry.storage
        storage.of("services").listeners.append(self._notice_service)
        storage.of("pods").listeners.append(self._notice_pod)
        storage.of(builtins.ENDPOINT_SLICES.qualified).listeners.append(self._notice_slice)

    def _notice_service(self, change: Change) -> None:
        key = (change.last.namespace, change.last.name)
        self._selectors.pop(key, None)
        if change.after is None:
            return
        selector = change.after.decode()["spec"].get("selector")
        if selector:
            self._selectors[key] = selector
        self._manager.add(self, key)

    def _notice_pod(self, change: Change) -> None:
        if not self._selectors:
            return
        places = [labels_of(each) for each in (change.before, change.after) if each is not None]
        for key, selector in self._selectors.items():
            if key[0] == change.last.namespace and any(_selects(selector, p) for p in places):
                self._manager.add(self, key, SETTLE)

    def _notice_slice(self, change: Change) -> None:
        labels = labels_of(change.last)
        if labels.get(MANAGED) == MANAGER:
            self._manager.add(self, (change.last.namespace, labels.get(SERVICE, "")), SETTLE)

    def reconcile(self, key: Key) -> None:
        """Make a Service's slices what its pods are."""
        service = self._registry.find("services", *key)
        slices = self._slices(key)
        if service is None or key not in self._selectors:
            for each in slices:
                self._delete(each)
            return
        obj = service.decode()
        selector = self._selectors[key]
        pods = [
            item.decode()
            for item in self._registry.storage.of("pods").items(key[0])
            if _selects(selector, labels_of(item))
        ]
        shown = [pod for pod in pods if _has_address(pod)]
        publish = bool(obj["spec"].get("publishNotReadyAddresses"))
        endpoints = [_endpoint(pod, publish) for pod in shown]
        ports = _ports(obj["spec"], shown)
        parts = [endpoints[at : at + LARGEST] for at in range(0, len(endpoints), LARGEST)] or [[]]
        for index, part in enumerate(parts):
            known = slices[index] if index < len(slices) else None
            self._write(service, obj, known, part, ports)
        for each in slices[len(parts) :]:
            self._delete(each)

    def _slices(self, key: Key) -> list[Item]:
        collection = self._registry.storage.of(builtins.ENDPOINT_SLICES.qualified)
        wanted = {MANAGED: MANAGER, SERVICE: key[1]}
        return [item for item in collection.items(key[0]) if _selects(wanted, labels_of(item))]

    def _write(
        self,
        service: Item,
        obj: Json,
        known: Item | None,
        endpoints: list[Json],
        ports: list[Json],
    ) -> None:
        labels = {**(obj["metadata"].get("labels") or {}), SERVICE: service.name, MANAGED: MANAGER}
        if obj["spec"].get("clusterIP") == "None":
            labels[HEADLESS] = ""
        if known is None:
            wanted: Json = {
                "metadata": {
                    "name": f"{service.name}-{suffix()}",
                    "generateName": f"{service.name}-",
                    "namespace": service.namespace,
                    "labels": labels,
                    "ownerReferences": [reference("v1", "Service", service)],
                    "annotations": {
                        "endpoints.kubernetes.io/last-change-trigger-time": times.now()
                    },
                },
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": ports,
            }
            self._registry.prepare(builtins.ENDPOINT_SLICES, service.namespace, wanted)
            self._registry.create(builtins.ENDPOINT_SLICES, service.namespace, wanted)
            return
        current = known.decode()
        same = (current.get("endpoints") or [], current.get("ports") or [])
        if same == (endpoints, ports) and current["metadata"].get("labels") == labels:
            return
        current["endpoints"], current["ports"] = endpoints, ports
        current["metadata"]["labels"] = labels
        self._registry.update(builtins.ENDPOINT_SLICES, known, current)

    def _delete(self, item: Item) -> None:
        deletion.delete(self._registry, builtins.ENDPOINT_SLICES, item, DeleteOptions())


def _selects(selector: dict[str, str], labels: dict[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def _has_address(pod: Json) -> bool:
    status = pod.get("status") or {}
    return bool(status.get("podIP")) and status.get("phase") not in _TERMINAL


def _endpoint(pod: Json, publish: bool) -> Json:
    meta = pod["metadata"]
    leaving = bool(meta.get("deletionTimestamp"))
    serving = is_ready(pod)
    endpoint: Json = {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {
            "ready": publish or (serving and not leaving),
            "serving": serving,
            "terminating": leaving,
        },
        "nodeName": pod["spec"].get("nodeName"),
        "targetRef": {
            "kind": "Pod",
            "namespace": meta["namespace"],
            "name": meta["name"],
            "uid": meta["uid"],
        },
    }
    if pod["spec"].get("hostname") and pod["spec"].get("subdomain"):
        endpoint["hostname"] = pod["spec"]["hostname"]
    return endpoint


def _ports(spec: Json, pods: list[Json]) -> list[Json]:
    found = []
    for port in spec.get("ports") or ():
        number = _number(port, pods)
        if number is not None:
            entry = {"name": port.get("name", ""), "port": number, "protocol": port["protocol"]}
            if port.get("appProtocol"):
                entry["appProtocol"] = port["appProtocol"]
            found.append(entry)
    return found


def _number(port: Json, pods: list[Json]) -> int | None:
    """The port on the pods; a name is looked up in the first pod that has it."""
    target = port.get("targetPort", port["port"])
    if isinstance(target, int):
        return target
    for pod in pods:
        for container in pod["spec"]["containers"]:
            for each in container.get("ports") or ():
                if each.get("name") == target:
                    number: int = each["containerPort"]
                    return number
    return None
