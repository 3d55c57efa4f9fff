"""Objects of a version with ``provider.direct_pods`` on, as it made them, and two upgrades."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from liqod.apimachinery.kinds import MUTATING_WEBHOOKS, NAMESPACES, PODS, ROLE_BINDINGS
from liqod.cluster.guestpolicies import GuestPolicies
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.peers.peer import Peer
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.provider.workloads import directpods
from liqod.provider.workloads.shadowpods import ShadowPods
from tests.simulated.lendingpods import LENDER, quota
from tests.simulated.reflecting import THERE, Pair, pair

Json = dict[str, Any]

WEBHOOK = {
    "metadata": {"name": "liqod-guests", "labels": {"liqod.io/managed": "true"}},
    "webhooks": [
        {
            "name": "guests.liqod.io",
            "clientConfig": {"url": "https://127.0.0.1:9/review-guest", "caBundle": "LS0tLS0="},
            "rules": [
                {
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "operations": ["CREATE"],
                    "resources": ["pods"],
                    "scope": "Namespaced",
                }
            ],
            "admissionReviewVersions": ["v1"],
            "sideEffects": "NoneOnDryRun",
            "failurePolicy": "Fail",
            "timeoutSeconds": 1,
            "reinvocationPolicy": "IfNeeded",
            "namespaceSelector": {
                "matchExpressions": [{"key": "liqo.io/remote-cluster-id", "operator": "Exists"}]
            },
            "objectSelector": {"matchLabels": {"liqo.io/managed-by": "consumer"}},
        }
    ],
}
BINDING = {
    "metadata": {
        "name": f"{LENDER}-pods",
        "labels": {
            "app.kubernetes.io/managed-by": "liqo",
            "liqo.io/managed": "true",
            "liqo.io/remote-cluster-id": "rome",
        },
    },
    "roleRef": {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "liqod-direct-pods",
    },
    "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "rome"}],
}
KEYS = (
    '{"metadata":{"annotations":{"liqod.io/changes":{},"liqod.io/local-uid":{},'
    '"liqod.io/source":{}},"labels":{"liqo.io/creator-user":{},"liqo.io/managed-by":{},'
    '"offloading.liqo.io/destination":{},"offloading.liqo.io/nodename":{},'
    '"offloading.liqo.io/origin":{}}}}'
)
NOT_VIRTUAL = {"key": "liqo.io/type", "operator": "NotIn", "values": ["virtual-node"]}
REAL_NODES = {"nodeSelectorTerms": [{"matchExpressions": [NOT_VIRTUAL]}]}


def written(local: Json) -> Json:
    """The Pod that was written there for a pod here."""
    name = local["metadata"]["name"]
    return {
        "metadata": {
            "name": name,
            "labels": {
                "liqo.io/managed-by": "consumer",
                "offloading.liqo.io/origin": "rome",
                "offloading.liqo.io/destination": "milan",
                "offloading.liqo.io/nodename": "milan",
                "liqo.io/creator-user": "milan-rome",
            },
            "annotations": {
                "liqod.io/changes": "fbcdb81f8e2bd223",
                "liqod.io/source": f"pods/{name}",
                "liqod.io/local-uid": local["metadata"]["uid"],
                "liqod.io/applied-hash": "3e2c3eacf2d00fd2",
                "liqod.io/applied-keys": KEYS,
            },
            "finalizers": ["liqod.io/direct-pod"],
        },
        "spec": {
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "restartPolicy": "Always",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "containers": [{"name": "web", "image": "nginx", "imagePullPolicy": "Always"}],
            "automountServiceAccountToken": False,
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": REAL_NODES}
            },
        },
    }


class Sides:
    """Rome and milan, before either is upgraded, with nobody at work."""

    def __init__(self, both: Pair, nursery: trio.Nursery, timings: ProviderTimings) -> None:
        self.both = both
        self._timings = timings
        self._nursery = nursery

    async def direct(self, name: str = "web", phase: str = "Running") -> tuple[str, str]:
        """A pod of rome's that runs at milan by what rome wrote; the UIDs of both."""
        local = await self.both.pod(name)
        wanted = written(local)
        if phase == "Pending":
            wanted["spec"]["nodeSelector"] = {"room": "none"}
        there = await self.both.there.create_full(PODS, wanted, THERE)
        await self.both.comes(PODS, name, lambda pod: pod["status"].get("phase") == phase)
        return local["metadata"]["uid"], there["metadata"]["uid"]

    async def upgrade_milan(self) -> None:
        """Milan's daemon begins to lead."""
        await self._nursery.start(directpods.run, self.both.lender, self._timings)
        peer = Peer("rome", self.both.lender, LENDER)
        await self._nursery.start(ShadowPods(peer, GuestPolicies()).run)

    async def upgrade_rome(self) -> None:
        """Rome's daemon begins to lead."""
        await self.both.start(self._nursery)

    async def stand_by(self, name: str) -> Json:
        """A pod there, as nobody of the other's has touched it."""
        await trio.sleep(0.5)
        return await self.both.there.get(PODS, name, THERE)


@asynccontextmanager
async def older(timings: ProviderTimings = ORDINARY) -> AsyncIterator[Sides]:
    async with pair() as both, trio.open_nursery() as nursery:
        await both.identities.slices["milan"].aclose()
        named = both.milan.kubeconfig_for("milan-rome", ("system:masters",))
        both.identities.slices["milan"] = Client(from_kubeconfig(named))
        await both.there.create(NAMESPACES, {"metadata": {"name": LENDER}})
        await quota(both, "milan-rome", "10")
        sides = Sides(both, nursery, timings)
        await both.there.create(ROLE_BINDINGS, BINDING, THERE)
        mark = {"metadata": {"annotations": {"liqod.io/direct-pods": "true"}}}
        await both.there.patch(NAMESPACES, THERE, mark)
        yield sides
        nursery.cancel_scope.cancel()


async def reviewed(both: Pair) -> None:
    """The webhook, once the pods are there that it had let in."""
    await both.there.create(MUTATING_WEBHOOKS, WEBHOOK)
