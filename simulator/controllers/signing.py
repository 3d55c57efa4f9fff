"""Signing requests: approved ones are signed with the cluster's authority."""

import base64
import binascii
from typing import Any

from liqod.errors import ProtocolError
from liqod.identity import certificates
from liqod.identity.certificates import Pair
from liqod.kube import times
from simulator import builtins
from simulator.controllers.manager import Manager
from simulator.storage.registry import Registry

Json = dict[str, Any]

CLIENT = "kubernetes.io/kube-apiserver-client"
SERVING = "kubernetes.io/kubelet-serving"
SIGNERS = (CLIENT, "kubernetes.io/kube-apiserver-client-kubelet", SERVING)
SHORTEST = 600
LONGEST = 365 * 24 * 3600


class Signing:
    """Signs requests for client certificates of this API server, and for kubelets' servers."""

    def __init__(self, registry: Registry, manager: Manager, ca: Pair) -> None:
        self._registry = registry
        self._ca = ca
        collection = registry.storage.of(builtins.SIGNING_REQUESTS.qualified)
        manager.follow(
            collection.listeners, self, lambda change: change.after and change.after.name
        )

    def reconcile(self, key: str) -> None:
        """Sign a request that is approved and has no certificate."""
        item = self._registry.find(builtins.SIGNING_REQUESTS.qualified, "", key)
        if item is None:
            return
        obj = item.decode()
        spec, status = obj["spec"], obj.get("status") or {}
        decided = {each["type"] for each in status.get("conditions") or ()}
        if "Approved" not in decided or decided & {"Denied", "Failed"}:
            return
        if status.get("certificate") or spec["signerName"] not in SIGNERS:
            return
        try:
            signed = self._sign(spec)
        except (ProtocolError, binascii.Error) as error:
            condition = {
                "type": "Failed",
                "status": "True",
                "reason": "SignerValidationFailure",
                "message": str(error),
                "lastUpdateTime": times.now(),
                "lastTransitionTime": times.now(),
            }
            status["conditions"] = [*status["conditions"], condition]
        else:
            status["certificate"] = base64.b64encode(signed).decode()
        obj["status"] = status
        self._registry.update(builtins.SIGNING_REQUESTS, item, obj, force=True)

    def _sign(self, spec: Json) -> bytes:
        usage = "server auth" if spec["signerName"] == SERVING else "client auth"
        if usage not in spec.get("usages", ()):
            raise ProtocolError(f"usages must contain {usage}")
        asked = spec.get("expirationSeconds") or LONGEST
        seconds = min(max(asked, SHORTEST), LONGEST)
        request = base64.b64decode(spec["request"])
        if spec["signerName"] == SERVING:
            return certificates.sign_server(self._ca, request, seconds=seconds)
        return certificates.sign_client(self._ca, request, seconds=seconds)
