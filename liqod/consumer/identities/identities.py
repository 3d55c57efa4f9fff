"""Identities: what providers gave to this cluster, made into kubeconfig Secrets and kept fresh.

An Identity of the control plane also gets a Renew, a standing request that is replicated to the
provider; the newer certificate that comes back in its status goes into the Identity. The Secret of
an Identity that is gone stays while it is needed: :mod:`liqod.consumer.leaving`.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from liqod.consumer.identities import places
from liqod.consumer.identities.keys import ClusterKeys, OwnKeys
from liqod.consumer.identities.kubeconfigs import (
    auth_patch,
    is_newer,
    problem_of,
    same_place,
    secret_of,
)
from liqod.consumer.identities.places import may_move
from liqod.errors import AlreadyExists
from liqod.inspect.events import IdentityChanged
from liqod.kube import events
from liqod.kube.cache.store import Change
from liqod.kube.controller import Controller
from liqod.kube.definitions import is_defined
from liqod.kube.ensure import ensure
from liqod.kube.kinds import SECRETS
from liqod.kube.meta import Partial, owner_reference
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched, by_name
from liqod.model import ids, labels
from liqod.peer import Peer
from liqod.resources import IDENTITIES, RENEWS, Identity, Renew
from liqod.resources.authentication import CONTROL_PLANE, AuthParams

TRY_AGAIN = 30.0
"""Seconds until a provider that says it has moved is looked for there again."""


def renew_of(identity: Identity, here: str) -> dict[str, Any]:
    """The standing request for fresh certificates of an Identity of the control plane."""
    return {
        "metadata": {
            "name": identity.name,
            "namespace": identity.namespace,
            "labels": {
                labels.REPLICATION: labels.TRUE,
                labels.REMOTE_ID: identity.spec.cluster_id,
                labels.REMOTE_CLUSTER_ID: identity.spec.cluster_id,
            },
            "ownerReferences": [owner_reference(IDENTITIES, identity.metadata)],
        },
        "spec": {"consumerClusterID": here, "identityType": CONTROL_PLANE},
    }


class Identities(Controller[str]):
    """Reconciles the Identities at one peer.

    Args:
        peer: the provider.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._client = peer.home.client
        self._own = OwnKeys(peer.home)
        namespace = peer.tenant_namespace
        self._identities = Watched(IDENTITIES, by_name, within=(namespace,))
        self._renews = Watched(RENEWS, by_name, within=(namespace,))
        self._secrets = Watched(SECRETS, _of_kubeconfig, Selection(namespace))
        self._asked: set[str] = set()
        """The Identities for which a Renew was made."""
        watches = (self._own.watched, self._identities, self._secrets, self._renews)
        super().__init__(peer, "identity", *watches, name="identities")

    async def reconcile(self, name: str) -> float | None:
        """Keep what is made of one Identity, or say why nothing is."""
        identity = self._identities.store.decode((self._peer.tenant_namespace, name), Identity)
        if identity is None:
            self._asked.discard(name)
        if identity is None or identity.leaving or identity.spec.cluster_id != self._peer.id:
            return None
        own = await self._own.now()
        control = identity.spec.type == CONTROL_PLANE
        again: float | None = None
        if control:
            offered = self._offered(identity, own)
            if offered is not None and await self._may_be(identity, offered, own):
                await self._take(identity, offered)
                return None  # the change of the Identity brings it here again
            again = TRY_AGAIN if offered is not None else None
        problem = problem_of(identity.spec.auth_params, own.public)
        if problem is None:
            await self._keep_secret(identity, own)
        else:
            await self._refuse(identity, problem)
        if control and not await self._keep_renew(identity):
            return DOUBT
        return again

    async def _refuse(self, identity: Identity, problem: str) -> None:
        self._peer.report(IdentityChanged(identity=identity.name, refused=problem))
        await events.tell(self._client, IDENTITIES, identity.metadata, "IdentityRefused", problem)

    async def _keep_secret(self, identity: Identity, own: ClusterKeys) -> None:
        wanted = secret_of(identity, own)
        name = wanted["metadata"]["name"]
        live = self._secrets.store.get((identity.namespace, name))
        present = identity.status.kubeconfig_secret_ref
        adopt = live is not None and (
            _is_managed(live) or (present is not None and present.name == name)
        )
        written = await ensure(self._client, SECRETS, wanted, live=live, adopt=adopt)
        if written.wrote:
            did = written.outcome
            self._peer.report(IdentityChanged(identity=identity.name, secret=name, did=did))
        if present is None or present.name != name:
            await self._client.patch(
                IDENTITIES,
                identity.name,
                {"status": {"kubeconfigSecretRef": {"name": name}}},
                identity.namespace,
                subresource="status",
            )

    async def _keep_renew(self, identity: Identity) -> bool:
        """Have the Renew there; false where one would not last.

        One that has gone is made again only while Identities are defined: without its owner the
        garbage collector takes each at once, and the store still shows the Identity.
        """
        key = (identity.namespace, identity.name)
        if not identity.spec.namespace or key in self._renews.store:
            return True
        if identity.name in self._asked and not await is_defined(self._client, IDENTITIES):
            return False
        self._asked.add(identity.name)
        wanted = renew_of(identity, self._peer.home.cluster_id)
        with suppress(AlreadyExists):  # made a moment ago; the watch has yet to show it
            await self._client.create(RENEWS, wanted, identity.namespace)
        return True

    def _offered(self, identity: Identity, own: ClusterKeys) -> AuthParams | None:
        """The newer way in that the provider's answer to our Renew offers."""
        renew = self._renews.store.decode((identity.namespace, identity.name), Renew)
        offered = renew.status.auth_params if renew is not None else None
        if offered is None or problem_of(offered, own.public) is not None:
            return None
        return offered if is_newer(offered, identity.spec.auth_params) else None

    async def _may_be(self, identity: Identity, offered: AuthParams, own: ClusterKeys) -> bool:
        """Whether it is the place that is known, or one to which the provider may have moved.

        An answer may be old: of the place where the provider was before it was peered with again.
        """
        present = identity.spec.auth_params
        if same_place(offered, present):
            return True
        if not may_move(offered, present):
            why = "it has another address and another authority: `liqod peer --replace` takes both"
        elif not await places.answers(identity, offered, own, dial=self._peer.home.dial):
            why = "it does not answer there"
        else:
            return True
        moves = offered.api_server
        self._peer.report(IdentityChanged(identity=identity.name, moves=moves, not_yet=why))
        return False

    async def _take(self, identity: Identity, offered: AuthParams) -> None:
        patch = {"spec": {"authParams": auth_patch(offered)}}
        await self._client.patch(IDENTITIES, identity.name, patch, identity.namespace)
        self._peer.report(IdentityChanged(identity=identity.name, renewed=True))


def _of_kubeconfig(change: Change) -> Iterator[str]:
    """The Identity of which a kubeconfig Secret is made."""
    prefix = ids.kubeconfig_secret("")
    if change.key[1].startswith(prefix):
        yield change.key[1].removeprefix(prefix)


def _is_managed(body: bytes) -> bool:
    """Whether liqod, or Liqo before it, made the Secret: then it may be written anew."""
    found = msgspec.json.decode(body, type=Partial).metadata.labels
    return found.get(labels.MANAGED) == labels.TRUE
