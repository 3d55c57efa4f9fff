"""Token Secrets: one of type ``kubernetes.io/service-account-token`` is given its token.

As in the real cluster such a token lasts until the Secret or the ServiceAccount goes.
"""

import base64
from collections.abc import Callable

from simulator import builtins
from simulator.controllers.manager import Manager
from simulator.storage.registry import Registry

TYPE = "kubernetes.io/service-account-token"
ACCOUNT = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"
FOR_EVER = 100 * 365 * 24 * 3600


class Tokens:
    """Fills token Secrets.

    Args:
        registry: the cluster's objects.
        manager: runs this.
        authority: PEM of the cluster's authority, put beside the token.
        issue: makes a token (:meth:`simulator.access.identities.Authenticator.issue`).
    """

    def __init__(
        self, registry: Registry, manager: Manager, authority: bytes, issue: Callable[..., str]
    ) -> None:
        self._registry = registry
        self._authority = authority
        self._issue = issue
        collection = registry.storage.of(builtins.SECRETS.qualified)
        manager.follow(
            collection.listeners,
            self,
            lambda change: change.after and f"{change.after.namespace}/{change.after.name}",
        )

    def reconcile(self, key: str) -> None:
        """Fill one Secret, if it is of that type, still empty and of an account that exists."""
        namespace, _, name = key.partition("/")
        item = self._registry.find(builtins.SECRETS.qualified, namespace, name)
        if item is None:
            return
        obj = item.decode()
        data = obj.get("data") or {}
        if obj.get("type") != TYPE or data.get("token"):
            return
        account = (obj["metadata"].get("annotations") or {}).get(ACCOUNT, "")
        found = self._registry.find("serviceaccounts", namespace, account)
        if found is None:
            return
        token = self._issue(namespace, account, found.uid, seconds=FOR_EVER, audiences=[])
        texts = {
            "token": token.encode(),
            "ca.crt": self._authority,
            "namespace": namespace.encode(),
        }
        obj["data"] = data | {k: base64.b64encode(v).decode() for k, v in texts.items()}
        obj["metadata"]["annotations"][ACCOUNT_UID] = found.uid
        self._registry.update(builtins.SECRETS, item, obj, force=True)
