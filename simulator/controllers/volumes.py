"""Claims and volumes: binds them, notifies provisioners, and makes volumes of this server's own.

In small what the volume controller and a provisioner do. A class of the provisioner
:data:`PROVISIONER` gets its volumes here, on any node; of any other class somebody else makes them.
"""

from typing import Any

from simulator import builtins
from simulator.controllers.manager import Manager
from simulator.storage import deletion
from simulator.storage.deletion import DeleteOptions
from simulator.storage.registry import Registry
from simulator.storage.storage import Change, Item

Json = dict[str, Any]
Key = tuple[str, str]

PROVISIONER = "simulator.io/hostpath"
SELECTED = "volume.kubernetes.io/selected-node"
TOLD = "volume.kubernetes.io/storage-provisioner"
BOUND = "pv.kubernetes.io/bind-completed"
_CLASSES = "storageclasses.storage.k8s.io"
_CLAIM = builtins.CLAIMS
_VOLUME = builtins.VOLUMES


class Volumes:
    """Follows claims and volumes; a key is a claim, or a volume with an empty namespace."""

    def __init__(self, registry: Registry, manager: Manager) -> None:
        self._registry = registry
        self._manager = manager
        storage = registry.storage
        storage.of(_CLAIM.qualified).listeners.append(self._notice_claim)
        storage.of(_VOLUME.qualified).listeners.append(self._notice_volume)

    def _notice_claim(self, change: Change) -> None:
        last = change.last
        self._manager.add(self, (last.namespace, last.name))
        name = last.decode()["spec"].get("volumeName")
        if name:
            self._manager.add(self, ("", name))

    def _notice_volume(self, change: Change) -> None:
        ref = change.last.decode()["spec"].get("claimRef") or {}
        self._manager.add(self, ("", change.last.name))
        if ref.get("name"):
            self._manager.add(self, (ref["namespace"], ref["name"]))

    def reconcile(self, key: Key) -> None:
        """Bind a claim or have it provisioned; release a volume."""
        if key[0]:
            item = self._registry.find(_CLAIM.qualified, *key)
            if item is not None:
                self._claim(item)
            return
        item = self._registry.find(_VOLUME.qualified, "", key[1])
        if item is not None:
            self._volume(item)

    def _claim(self, item: Item) -> None:
        claim = item.decode()
        meta, spec = claim["metadata"], claim["spec"]
        volume = self._registry.find(_VOLUME.qualified, "", spec.get("volumeName") or _name(claim))
        if volume is not None:
            self._bind(item, claim, volume.decode())
            return
        if spec.get("volumeName") or not spec.get("storageClassName"):
            return
        found = self._registry.find(_CLASSES, "", spec["storageClassName"])
        if found is None:
            return
        of, notes = found.decode(), meta.setdefault("annotations", {})
        delayed = of.get("volumeBindingMode") == "WaitForFirstConsumer"
        if delayed and SELECTED not in notes:
            return
        if notes.get(TOLD) != of["provisioner"]:
            notes[TOLD] = of["provisioner"]
            self._registry.update(_CLAIM, item, claim, force=True)
        elif of["provisioner"] == PROVISIONER:
            made = _made(claim, of)
            self._registry.prepare(_VOLUME, "", made)
            self._registry.create(_VOLUME, "", made)

    def _bind(self, item: Item, claim: Json, volume: Json) -> None:
        meta, spec = claim["metadata"], claim["spec"]
        if (volume["spec"].get("claimRef") or {}).get("uid") != meta["uid"]:
            return
        status = claim.get("status") or {}
        if status.get("phase") == "Bound":
            self._grow(item, claim, volume)
            return
        spec["volumeName"] = volume["metadata"]["name"]
        meta.setdefault("annotations", {})[BOUND] = "yes"
        claim["status"] = {
            **status,
            "phase": "Bound",
            "accessModes": spec["accessModes"],
            "capacity": dict(volume["spec"]["capacity"]),
        }
        self._registry.update(_CLAIM, item, claim, force=True)

    def _grow(self, item: Item, claim: Json, volume: Json) -> None:
        """Grow a claim of the provisioner's own volumes at once; none is shrunk."""
        notes = volume["metadata"].get("annotations") or {}
        wanted = claim["spec"]["resources"]["requests"]["storage"]
        if notes.get("pv.kubernetes.io/provisioned-by") != PROVISIONER:
            return
        if claim["status"].get("capacity") != {"storage": wanted}:
            claim["status"]["capacity"] = {"storage": wanted}
            self._registry.update(_CLAIM, item, claim, subresource="status")

    def _volume(self, item: Item) -> None:
        volume = item.decode()
        ref = volume["spec"].get("claimRef")
        if not ref:
            return
        claim = self._registry.find(_CLAIM.qualified, ref["namespace"], ref["name"])
        alive = claim is not None and claim.decode()["metadata"]["uid"] == ref["uid"]
        phase = "Bound" if alive else "Released"
        if (volume.get("status") or {}).get("phase") != phase:
            volume["status"] = {"phase": phase}
            self._registry.update(_VOLUME, item, volume, subresource="status")
        elif not alive:
            notes = volume["metadata"].get("annotations") or {}
            if notes.get("pv.kubernetes.io/provisioned-by") == PROVISIONER:
                deletion.delete(self._registry, _VOLUME, item, DeleteOptions())


def needs(registry: Registry, pod: Json) -> tuple[str, list[list[Json]], list[Item]]:
    """The restrictions that a pod's claims put on its node.

    Returns:
        Why it cannot be placed yet, or nothing; the node selector terms of its volumes; and the
        claims that wait for a node to be chosen.
    """
    terms: list[list[Json]] = []
    waiting: list[Item] = []
    for volume in pod["spec"].get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if not name:
            continue
        item = registry.find(_CLAIM.qualified, pod["metadata"]["namespace"], name)
        if item is None:
            return f'persistentvolumeclaim "{name}" not found', [], []
        claim = item.decode()
        if (claim.get("status") or {}).get("phase") != "Bound":
            waiting.append(item)
            continue
        found = registry.find(_VOLUME.qualified, "", claim["spec"]["volumeName"])
        required: Json = {}
        if found is not None:
            required = (found.decode()["spec"].get("nodeAffinity") or {}).get("required") or {}
        if required:
            terms.append(list(required["nodeSelectorTerms"]))
    return "", terms, waiting


def select(registry: Registry, claims: list[Item], node: str) -> None:
    """Say where claims are wanted."""
    for item in claims:
        claim = item.decode()
        notes = claim["metadata"].setdefault("annotations", {})
        if notes.get(SELECTED) != node:
            notes[SELECTED] = node
            registry.update(_CLAIM, item, claim, force=True)


def chosen(claims: list[Item]) -> bool:
    """True if a node has been chosen for each, and its volume is awaited."""
    notes = (each.decode()["metadata"].get("annotations") or {} for each in claims)
    return all(SELECTED in each for each in notes)


def _name(claim: Json) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def _made(claim: Json, of: Json) -> Json:
    meta, spec = claim["metadata"], claim["spec"]
    return {
        "metadata": {
            "name": _name(claim),
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": dict(spec["resources"]["requests"]),
            "claimRef": {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                **{key: meta[key] for key in ("namespace", "name", "uid")},
            },
            "hostPath": {"path": f"/volumes/{meta['uid']}"},
            "persistentVolumeReclaimPolicy": of.get("reclaimPolicy", "Delete"),
            "storageClassName": spec["storageClassName"],
            "volumeMode": spec.get("volumeMode", "Filesystem"),
        },
    }
