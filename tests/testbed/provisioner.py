"""A provisioner of directories of a node, for clusters of the testbed, which bring none."""

from __future__ import annotations

import threading
from typing import Any

from tests.testbed.api import Api
from tests.testbed.errors import TestbedError

NAME = "testbed.liqod.io/directories"
SELECTED = "volume.kubernetes.io/selected-node"
CLASS = {
    "metadata": {
        "name": "local",
        "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
    },
    "provisioner": NAME,
    "volumeBindingMode": "WaitForFirstConsumer",
}
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_VOLUMES = "/api/v1/persistentvolumes"
POLL = 0.3


class Provisioner:
    """Makes the class `local` of a cluster, and its volumes until it is closed."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._ends = threading.Event()
        api.call("POST", _CLASSES, CLASS)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Make no more."""
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ends.wait(POLL):
            try:
                self._provision()
            except TestbedError:
                continue  # the API server is busy, or somebody was quicker

    def _provision(self) -> None:
        for claim in self._api.get("/api/v1/persistentvolumeclaims")["items"]:
            meta, spec = claim["metadata"], claim["spec"]
            node = meta.get("annotations", {}).get(SELECTED)
            if spec.get("storageClassName") != "local" or spec.get("volumeName") or not node:
                continue
            name = f"pvc-{meta['uid']}"
            if not self._api.exists(f"{_VOLUMES}/{name}"):
                self._api.call("POST", _VOLUMES, _volume(name, node, claim))


def _volume(name: str, node: str, claim: dict[str, Any]) -> dict[str, Any]:
    meta, spec = claim["metadata"], claim["spec"]
    where = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": NAME}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": spec["resources"]["requests"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                **{key: meta[key] for key in ("namespace", "name", "uid")},
            },
            "hostPath": {"path": f"/tmp/{name}", "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [where]}]}},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "local",
        },
    }
