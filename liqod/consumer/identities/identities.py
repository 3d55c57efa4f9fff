"""Identities: the access that providers gave, made into kubeconfig Secrets and kept fresh.

An Identity of the control plane also gets a Renew, a standing request that is replicated to the
provider; the newer certificate that comes back in its status goes into the Identity. The Secret of
an Identity that is gone stays while it is needed: :mod:`liqod.consumer.providercleanup`.
"""

from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial, owner_reference
from liqod.consumer.identities import providerpinning
from liqod.consumer.identities.clusterkeys import (
    ClusterKeys,
    CurrentKeys,
    is_keyed_request,
    keyed_request,
    offer_of,
)
from liqod.consumer.identities.formerkey import listener_of
from liqod.consumer.identities.kubeconfigs import (
    auth_patch,
    is_newer,
    problem_of,
    same_place,
    secret_of,
)
from liqod.consumer.identities.providerpinning import may_move
from liqod.errors import AlreadyExists, ProtocolError
from liqod.identity import successions
from liqod.kube import recorder
from liqod.kube.cache.store import StoreChange
from liqod.kube.controller import Controller
from liqod.kube.definitions import is_defined
from liqod.kube.ensure import ensure
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched, by_name
from liqod.model import ids
from liqod.model.peering import providerkeys
from liqod.peers.peer import Peer
from liqod.resources import IDENTITIES, RENEWS, Identity, Renew
from liqod.resources.authentication import CONTROL_PLANE, AuthParams
from liqod.telemetry.events import IdentityChanged

TRY_AGAIN = 30.0
"""Seconds until a provider that announces a move is tried at the new place again."""


def renew_of(identity: Identity, here: str, csr: bytes) -> dict[str, Any]:
    """The standing request for fresh certificates of an Identity of the control plane.

    Args:
        identity: the Identity.
        here: this cluster's id.
        csr: for the user that belongs to no other key; Liqo signs none of that form.
    """
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
        "spec": {
            "consumerClusterID": here,
            "identityType": CONTROL_PLANE,
            "csr": b64encode(csr).decode(),
        },
    }


class Identities(Controller[str]):
    """Reconciles the Identities at one peer.

    Args:
        peer: the provider.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._client = peer.context.client
        self._own = CurrentKeys(peer.context, ids.control_plane_identity(peer.id))
        namespace = peer.tenant_namespace
        self._identities = Watched(IDENTITIES, self._on_identity, within=(namespace,))
        self._renews = Watched(RENEWS, by_name, within=(namespace,))
        self._secrets = Watched(SECRETS, _of_kubeconfig, Selection(namespace))
        self._followed = ""
        """The last statement of the provider's about its key that was checked."""
        self._renew_requested: set[str] = set()
        """The Identities for which a Renew was made."""
        watches = (self._own.watched, self._identities, self._secrets, self._renews)
        super().__init__(peer, "identity", *watches, name="identities")

    async def reconcile(self, name: str) -> float | None:
        """Keep the objects made of one Identity, or report why there are none."""
        identity = self._identities.store.decode((self._peer.tenant_namespace, name), Identity)
        if identity is None:
            self._renew_requested.discard(name)
        if identity is None or identity.leaving or identity.spec.cluster_id != self._peer.id:
            return None
        own = await self._own.now()
        mine = own.of(identity.spec.auth_params.signed_crt)
        control = identity.spec.type == CONTROL_PLANE
        again: float | None = None
        if control:
            offered = self._offered(identity, own)
            if offered is not None and await self._may_be(identity, offered, own):
                await self._take(identity, offered)
                return None  # the change of the Identity causes another turn
            again = TRY_AGAIN if offered is not None else None
        problem = problem_of(identity.spec.auth_params, mine.public)
        if problem is None:
            await self._keep_secret(identity, mine)
        else:
            await self._refuse(identity, problem)
        if control:
            await self._follow_provider(identity.name)
        if control and not await self._keep_renew(identity, own):
            return DOUBT
        return again

    async def _refuse(self, identity: Identity, problem: str) -> None:
        self._peer.report(IdentityChanged(identity=identity.name, refused=problem))
        await recorder.record(
            self._client, IDENTITIES, identity.metadata, "IdentityRefused", problem
        )

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

    async def _keep_renew(self, identity: Identity, own: ClusterKeys) -> bool:
        """Create or update the Renew for the present key; False if it would not last.

        One that has gone is made again only while Identities are defined: without its owner the
        garbage collector takes each at once, and the store still shows the Identity.
        """
        key = (identity.namespace, identity.name)
        here = self._peer.context.cluster_id
        live = self._renews.store.decode(key, Renew)
        offer, own = self._offer(identity, own, live), self._requesting_keys(own)
        patch: dict[str, Any] = {}
        if live is not None and not is_keyed_request(live.spec.csr, own, here):
            patch["spec"] = {"csr": b64encode(keyed_request(own, here)).decode()}
        if live is not None and offer:
            patch["metadata"] = {"annotations": {labels.SUCCESSION: offer}}
        if live is not None and patch:
            await self._client.patch(RENEWS, live.name, patch, live.namespace)
        if not identity.spec.namespace or live is not None:
            return True
        if identity.name in self._renew_requested and not await is_defined(
            self._client, IDENTITIES
        ):
            return False
        self._renew_requested.add(identity.name)
        wanted = renew_of(identity, here, keyed_request(own, here))
        if offer:
            wanted["metadata"]["annotations"] = {labels.SUCCESSION: offer}
        with suppress(AlreadyExists):  # made a moment ago; the watch has yet to show it
            await self._client.create(RENEWS, wanted, identity.namespace)
        return True

    def _on_identity(self, change: StoreChange) -> Iterator[str]:
        """Yield the Identity, and the control plane's: its Renew shows if all use this key."""
        yield change.key[1]
        yield ids.control_plane_identity(self._peer.id)

    async def _follow_provider(self, name: str) -> None:
        """Record a key that follows the provider's by its own statement, and confirm that."""
        peer, place = self._peer.id, self._peer.tenant_namespace
        renew = self._renews.store.decode((place, name), Renew)
        said = {} if renew is None else renew.metadata.annotations
        text = said.get(labels.PROVIDER_SUCCESSION, "")
        if renew is not None and not text:
            await self._report_provider_key(renew)
        if not text or self._followed == text:
            return
        try:
            found = successions.verify(text)
            if found.cluster_id != peer:
                raise ProtocolError(f"the statement is about {found.cluster_id}, and not {peer}")
            live = await self._client.get(NAMESPACES, place, decode=Partial)
            known = live.metadata.annotations.get(labels.PROVIDER_KEYS)
            note = known
            if providerkeys.follow(known, found.former) != found.next:
                note = providerkeys.added(known, found.former, found.next)
            if note is None:
                raise ProtocolError(
                    f"another key has followed {found.former[:16]}… already, or too many have"
                )
        except ProtocolError as error:
            self._followed = text
            why = f"another key of {peer} is not followed: {error}"
            self._peer.report(IdentityChanged(identity=name, refused=why))
            if renew is not None:
                await recorder.record(self._client, RENEWS, renew.metadata, "KeyNotFollowed", why)
            return
        if note != known:
            # Over the version that was read: no other writer's step is lost.
            version = {"resourceVersion": live.metadata.resource_version}
            noted = {**version, "annotations": {labels.PROVIDER_KEYS: note}}
            await self._client.patch(NAMESPACES, place, {"metadata": noted})
        if said.get(labels.PROVIDER_KEY) != found.next:
            mark = {"metadata": {"annotations": {labels.PROVIDER_KEY: found.next}}}
            await self._client.patch(RENEWS, name, mark, place)
        self._followed = text

    async def _report_provider_key(self, renew: Renew) -> None:
        """Report the key by which a provider is identified while its daemon is in use, so that its
        next one would be followed."""
        place = (renew.namespace, renew.name)
        identity = self._identities.store.decode(place, Identity)
        known = "" if identity is None else listener_of(identity.spec.auth_params.proxy_url)
        if known and labels.PROVIDER_KEY not in renew.metadata.annotations:
            mark = {"metadata": {"annotations": {labels.PROVIDER_KEY: known}}}
            await self._client.patch(RENEWS, renew.name, mark, renew.namespace)

    def _requesting_keys(self, own: ClusterKeys) -> ClusterKeys:
        """The pair for the Renew's request: the former one, until all that this cluster has there
        is for the other. That shows the provider that nothing needs the former names any more.
        """
        if own.former is None:
            return own
        store, place = self._identities.store, self._peer.tenant_namespace
        found = (store.decode(key, Identity) for key in store.indexed("namespace", place))
        had = (each.spec.auth_params.signed_crt for each in found if each is not None)
        return own if all(own.of(each) is own for each in had) else own.former

    def _offer(self, identity: Identity, own: ClusterKeys, live: Renew | None) -> str:
        """The key offer for a provider that has the former key; empty if it is not new."""
        if own.former is None or own.of(identity.spec.auth_params.signed_crt) is own:
            return ""
        known = "" if live is None else live.metadata.annotations.get(labels.SUCCESSION, "")
        same = known.partition(" ")[0] == own.succession
        return "" if same else offer_of(own, self._peer.context.cluster_id)

    def _offered(self, identity: Identity, own: ClusterKeys) -> AuthParams | None:
        """The newer access that the provider's answer to our Renew offers."""
        renew = self._renews.store.decode((identity.namespace, identity.name), Renew)
        offered = renew.status.auth_params if renew is not None else None
        if offered is None:
            return None
        # From the former key one may go to this one, and never back.
        mine = own.of(offered.signed_crt)
        allowed = mine is own or own.of(identity.spec.auth_params.signed_crt) is mine
        if not allowed or problem_of(offered, mine.public) is not None:
            return None
        return offered if is_newer(offered, identity.spec.auth_params) else None

    async def _may_be(self, identity: Identity, offered: AuthParams, own: ClusterKeys) -> bool:
        """True if it leads to the known place, or to one to which the provider may have moved.

        An answer may be old: of the place where the provider was before it was peered with again.
        """
        present = identity.spec.auth_params
        if same_place(offered, present):
            return True
        known = self._peer.context.addressing
        why = providerpinning.address_problem(
            offered, present, (*known.pod_cidrs, *known.service_cidrs)
        )
        if not why and not may_move(offered, present):
            why = "it has another address and another authority: peer again with --replace"
        if not why and not await providerpinning.answers(
            identity, offered, own, dial=self._peer.context.client.dial
        ):
            why = "it does not answer there"
        if not why:
            return True
        moves = offered.api_server
        self._peer.report(IdentityChanged(identity=identity.name, moves=moves, not_yet=why))
        return False

    async def _take(self, identity: Identity, offered: AuthParams) -> None:
        patch = {"spec": {"authParams": auth_patch(offered)}}
        await self._client.patch(IDENTITIES, identity.name, patch, identity.namespace)
        self._peer.report(IdentityChanged(identity=identity.name, renewed=True))


def _of_kubeconfig(change: StoreChange) -> Iterator[str]:
    """The Identity of which a kubeconfig Secret is made."""
    prefix = ids.kubeconfig_secret("")
    if change.key[1].startswith(prefix):
        yield change.key[1].removeprefix(prefix)


def _is_managed(body: bytes) -> bool:
    """True if liqod, or Liqo before it, made the Secret, so that it may be written anew."""
    found = msgspec.json.decode(body, type=Partial).metadata.labels
    return found.get(labels.MANAGED) == labels.TRUE
