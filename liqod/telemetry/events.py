"""Events that components report to the hub: a struct for each topic.

A fact that has its default is not reported. :meth:`TopicEvent.facts` gives all facts of an event;
:mod:`liqod.model.view.rows` makes texts for people of them.
"""

from typing import Any, ClassVar

import msgspec


class TopicEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Something that a component decided or found."""

    TOPIC: ClassVar[str] = ""

    @property
    def topic(self) -> str:
        """The topic, dotted; that of an event of one peer begins with ``peer.``."""
        return self.TOPIC

    def facts(self) -> dict[str, Any]:
        """Its fields as JSON values, without those that have their defaults."""
        facts: dict[str, Any] = msgspec.to_builtins(self)
        return facts


class KeyFailed(TopicEvent, frozen=True, kw_only=True):
    """A key of a controller's queue failed, and is tried again.

    Attributes:
        source: the topic of the controller's events.
        key: which.
        failed: why.
        reflector: whose, where it is a reflector's.
    """

    source: str
    reflector: str = ""
    key: str
    failed: str

    @property
    def topic(self) -> str:
        return self.source

    def facts(self) -> dict[str, Any]:
        facts = super().facts()
        del facts["source"]
        return facts


# Of the daemon and of the whole cluster


class HeldUp(TopicEvent, frozen=True, kw_only=True):
    """Something held the event loop up, for so many seconds."""

    TOPIC: ClassVar[str] = "daemon.heldup"
    seconds: float
    by: str


class VerdictTurned(TopicEvent, frozen=True, kw_only=True):
    """The doctor found that a layer works no more, or again."""

    TOPIC: ClassVar[str] = "doctor"
    layer: str
    verdict: str
    evidence: str


class ClusterSighted(TopicEvent, frozen=True, kw_only=True):
    """A discovery plugin sees a cluster, or sees it no more.

    Attributes:
        plugin: who sees it.
        cluster_id: the cluster.
        where: by which of its sources, where it has several.
        gone: whether it is seen no more.
        addresses: where its daemon takes the handshake, as seen there.
        key: SHA-256 of the key that has signed its advert, in hex; empty without one that holds.
        problem: why its advert does not hold.
        tenant_namespace: the local namespace that belongs to it, where one is known.
        secret: name of its kubeconfig Secret there, where there is one.
        kubeconfig: path of the credentials to peer by that it brings.
    """

    TOPIC: ClassVar[str] = "discovery.sighting"
    plugin: str
    cluster_id: str
    where: str = ""
    gone: bool = False
    addresses: tuple[str, ...] = ()
    key: str = ""
    problem: str = ""
    tenant_namespace: str = ""
    secret: str = ""
    kubeconfig: str = ""


class DiscoveryBegun(TopicEvent, frozen=True, kw_only=True):
    """A plugin that failed runs again, or peering with a cluster that failed."""

    TOPIC: ClassVar[str] = "discovery.begun"
    plugin: str = ""
    cluster: str = ""


class DiscoveryFailed(TopicEvent, frozen=True, kw_only=True):
    """A discovery plugin does not run, or peering with a cluster fails.

    Attributes:
        plugin: the plugin, if it is one.
        cluster: the cluster, if it is that.
        reason: why.
        failures: how often in a row.
        retry_in: seconds until the next try.
        parked: whether it waits for a change rather than for time alone.
    """

    TOPIC: ClassVar[str] = "discovery.failed"
    plugin: str = ""
    cluster: str = ""
    reason: str
    failures: int
    retry_in: float
    parked: bool


class PoliciesChanged(TopicEvent, frozen=True, kw_only=True):
    """The admission policies for guests that are missing now."""

    TOPIC: ClassVar[str] = "policies"
    missing: tuple[str, ...]


class WebhookChanged(TopicEvent, frozen=True, kw_only=True):
    """The webhook was certified, or its way was tried, or a step failed.

    Attributes:
        certified: the hosts that a new certificate is for.
        reachable: whether the API server reaches it.
        reason: why not, or why the step failed.
        failed: the step.
    """

    TOPIC: ClassVar[str] = "webhook"
    certified: tuple[str, ...] = ()
    reachable: bool | None = None
    reason: str = ""
    failed: str = ""


class MissedPod(TopicEvent, frozen=True, kw_only=True):
    """A pod that the webhook had missed may now run on virtual nodes."""

    TOPIC: ClassVar[str] = "missed"
    pod: str
    tolerates: bool = False


class KeysFailed(TopicEvent, frozen=True, kw_only=True):
    """The cluster's own keys could not be read or made."""

    TOPIC: ClassVar[str] = "keys"
    failed: str


class OffloadingChanged(TopicEvent, frozen=True, kw_only=True):
    """A namespace is offloaded otherwise than before, or no more."""

    TOPIC: ClassVar[str] = "offloading"
    namespace: str = ""
    phase: str = ""
    problem: str = ""
    ended: bool = False


class OrphanSwept(TopicEvent, frozen=True, kw_only=True):
    """The garbage of a consumer that is gone was removed, or waits for something.

    Attributes:
        kind: what it is.
        map: the NamespaceMap that it was made for.
        awaits: what has to go first.
        swept: how many, where they are not named.
    """

    TOPIC: ClassVar[str] = "orphans"
    kind: str
    awaits: str = ""
    name: str = ""
    map: str = ""
    swept: int = 0


class ForeignClusterSwept(TopicEvent, frozen=True, kw_only=True):
    """The ForeignCluster of a peer that is gone was deleted."""

    TOPIC: ClassVar[str] = "foreigncluster"
    name: str
    did: str = ""


class NetworkSwept(TopicEvent, frozen=True, kw_only=True):
    """The garbage on this machine of a peer that is gone was taken down."""

    TOPIC: ClassVar[str] = "network"
    peer: str
    did: str


# Of one peer


class PeerSeen(TopicEvent, frozen=True, kw_only=True):
    """There is a peer: its tenant namespace is here."""

    TOPIC: ClassVar[str] = "peer.seen"
    namespace: str


class PeerRunning(TopicEvent, frozen=True, kw_only=True):
    """The peer's task has started."""

    TOPIC: ClassVar[str] = "peer.running"


class PeerFailed(TopicEvent, frozen=True, kw_only=True):
    """The peer's task failed; attributes as of :class:`DiscoveryFailed`."""

    TOPIC: ClassVar[str] = "peer.failed"
    reason: str
    failures: int
    retry_in: float
    parked: bool


class PeerGone(TopicEvent, frozen=True, kw_only=True):
    """It is a peer no more."""

    TOPIC: ClassVar[str] = "peer.gone"


class PeeringStep(TopicEvent, frozen=True, kw_only=True):
    """The present step of peering with it."""

    TOPIC: ClassVar[str] = "peer.introduction"
    step: str


class LinkChanged(TopicEvent, frozen=True, kw_only=True):
    """The peer's API server answers, or does not and why."""

    TOPIC: ClassVar[str] = "peer.link"
    up: bool
    reason: str


class PeerDaemonChanged(TopicEvent, frozen=True, kw_only=True):
    """The peer's daemon runs or not, and by what that is seen."""

    TOPIC: ClassVar[str] = "peer.daemon"
    runs: bool
    reason: str


class IdentityChanged(TopicEvent, frozen=True, kw_only=True):
    """The result of the daemon's work on an identity that the peer gave, or on its Secret.

    Attributes:
        identity: its name.
        secret: name of its Secret.
        did: what was done with that.
        renewed: whether another certificate was taken.
        moves: the address at which the peer says that it is now.
        not_yet: why that is not believed.
        refused: why it is not taken.
        failed: why a Secret cannot be used.
    """

    TOPIC: ClassVar[str] = "peer.identity"
    identity: str = ""
    secret: str = ""
    did: str = ""
    renewed: bool = False
    moves: str = ""
    not_yet: str = ""
    refused: str = ""
    failed: str = ""


class NonceSigned(TopicEvent, frozen=True, kw_only=True):
    """The peer's nonce was signed, or why not."""

    TOPIC: ClassVar[str] = "peer.signing"
    secret: str
    refused: str = ""


class Borrowed(TopicEvent, frozen=True, kw_only=True):
    """An action on the Identity or the VirtualNode of a slice."""

    TOPIC: ClassVar[str] = "peer.borrowed"
    kind: str
    name: str
    did: str


class Replicated(TopicEvent, frozen=True, kw_only=True):
    """The result of writing one of our objects at the peer, or of watching them.

    Attributes:
        did: what was done there.
        state: ``running`` where it begins.
        server: where.
        waits: what has to come back first.
        refused: why the peer does not take it.
        failed: why it could not be done.
    """

    TOPIC: ClassVar[str] = "peer.replication"
    state: str = ""
    server: str = ""
    kind: str = ""
    name: str = ""
    did: str = ""
    waits: str = ""
    refused: str = ""
    failed: str = ""


class NodeChanged(TopicEvent, frozen=True, kw_only=True):
    """A virtual node is ready or not, or was removed, or a step of it failed."""

    TOPIC: ClassVar[str] = "peer.node"
    node: str
    ready: bool | None = None
    removed: bool = False
    failed: str = ""
    reason: str = ""


class NodeDraining(TopicEvent, frozen=True, kw_only=True):
    """The drain of a virtual node waits for something."""

    TOPIC: ClassVar[str] = "peer.drain"
    node: str
    waits: str


class InheritedFreed(TopicEvent, frozen=True, kw_only=True):
    """A finalizer that Liqo left behind was taken off."""

    TOPIC: ClassVar[str] = "peer.inherited"
    kind: str
    name: str
    finalizer: str


class PeeringEnds(TopicEvent, frozen=True, kw_only=True):
    """The peering ends: by us or not, the deleted object, why there is nothing more to do."""

    TOPIC: ClassVar[str] = "peer.leaving"
    leaving: bool | None = None
    namespace: str = ""
    did: str = ""
    ended: str = ""


class ForeignClusterDeleted(TopicEvent, frozen=True, kw_only=True):
    """Our account of the peer was deleted."""

    TOPIC: ClassVar[str] = "peer.foreigncluster"
    did: str


class SliceLent(TopicEvent, frozen=True, kw_only=True):
    """Our verdict on a slice that the peer asks for.

    Attributes:
        slice: its name.
        conditions: its conditions, by type.
        cordoned: why it is cordoned again.
    """

    TOPIC: ClassVar[str] = "peer.lent"
    slice: str
    conditions: dict[str, str] = {}
    cordoned: str = ""


class NamespaceMapped(TopicEvent, frozen=True, kw_only=True):
    """A namespace that the peer asks for is not accepted, or its whole map is not."""

    TOPIC: ClassVar[str] = "peer.namespacemap"
    name: str = ""
    namespace: str = ""
    phase: str = ""
    reason: str


class ShadowPodWaits(TopicEvent, frozen=True, kw_only=True):
    """Why there is no pod for a ShadowPod."""

    TOPIC: ClassVar[str] = "peer.shadowpod.waits"
    namespace: str
    pod: str
    reason: str
    message: str


class ShadowPodPhase(TopicEvent, frozen=True, kw_only=True):
    """The phase of a ShadowPod's pod."""

    TOPIC: ClassVar[str] = "peer.shadowpod.phase"
    namespace: str
    pod: str
    phase: str


class EndpointsRefused(TopicEvent, frozen=True, kw_only=True):
    """Why endpoints of the peer are not relayed; no reason: they are."""

    TOPIC: ClassVar[str] = "peer.endpoints.refused"
    namespace: str
    name: str
    reason: str


class RenewalAnswered(TopicEvent, frozen=True, kw_only=True):
    """The newest certificate was put into a Renew."""

    TOPIC: ClassVar[str] = "peer.renewal"
    renew: str


class NonceMade(TopicEvent, frozen=True, kw_only=True):
    """A nonce was put into the Secret that asked for it."""

    TOPIC: ClassVar[str] = "peer.nonce"
    secret: str


class TenantChanged(TopicEvent, frozen=True, kw_only=True):
    """The Tenant is accepted, refused, draining or drained."""

    TOPIC: ClassVar[str] = "peer.tenant"
    state: str
    reason: str = ""
    waits: str = ""


# Of the network that is joined with one peer


class GatewayJudged(TopicEvent, frozen=True, kw_only=True):
    """A peer's GatewayServer or GatewayClient is accepted, is refused, or waits for something.

    Attributes:
        kind, name: of the object.
        waits: a sentence; empty where nothing is in the way.
    """

    TOPIC: ClassVar[str] = "peer.gateway"
    kind: str
    name: str
    waits: str = ""


class TunnelChanged(TopicEvent, frozen=True, kw_only=True):
    """How the tunnel is: Connected, Connecting or Error; why, where there is a reason.

    Attributes:
        path, endpoint: which way it goes from now on, such as ``websocket``, where that has
            changed.
    """

    TOPIC: ClassVar[str] = "peer.tunnel"
    state: str
    reason: str = ""
    path: str = ""
    endpoint: str = ""


# Of what is reflected to one peer


class NamespaceSession(TopicEvent, frozen=True, kw_only=True):
    """A namespace is mapped at the peer from now on (``started``), or no more (``ended``)."""

    TOPIC: ClassVar[str] = "peer.namespace"
    namespace: str
    state: str


class KindRead(TopicEvent, frozen=True, kw_only=True):
    """Why a kind cannot be read at the peer; empty: it can."""

    TOPIC: ClassVar[str] = "peer.kind"
    kind: str
    problem: str


class Reflected(TopicEvent, frozen=True, kw_only=True):
    """An action on an object that is reflected.

    Attributes:
        namespace: the object's here.
        action: what was done, such as ``create``.
        reason: why.
        kind: of what was made there, where a reflector makes several.
    """

    TOPIC: ClassVar[str] = "peer.reflection"
    reflector: str
    namespace: str
    name: str
    action: str
    reason: str = ""
    kind: str = ""
