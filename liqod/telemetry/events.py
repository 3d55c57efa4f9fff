"""Events that components report to the hub: a struct for each topic.

A fact with its default value is not reported. :meth:`TopicEvent.facts` gives all facts of an event;
:mod:`liqod.model.view.rows` turns them into texts for people.
"""

from typing import Any, ClassVar

import msgspec


class TopicEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A decision or finding of a component."""

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
    """A key of a controller's queue failed, and will be retried.

    Attributes:
        source: the topic of the controller's events.
        key: the key.
        failed: the reason.
        reflector: name of the reflector, if it is one.
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
    """The event loop was blocked, for so many seconds."""

    TOPIC: ClassVar[str] = "daemon.heldup"
    seconds: float
    by: str


class VerdictTurned(TopicEvent, frozen=True, kw_only=True):
    """The doctor found that a layer has failed or recovered."""

    TOPIC: ClassVar[str] = "doctor"
    layer: str
    verdict: str
    evidence: str


class ClusterSighted(TopicEvent, frozen=True, kw_only=True):
    """A discovery plugin sees a cluster, or no longer sees it.

    Attributes:
        plugin: name of the plugin.
        cluster_id: the cluster.
        where: the source of the sighting, if the plugin has several.
        gone: whether it is no longer seen.
        addresses: addresses of its daemon's handshake, from that source.
        key: SHA-256 of the key that has signed its advert, in hex; empty without a valid advert.
        problem: reason that its advert is invalid.
        tenant_namespace: the local namespace that belongs to it, if known.
        secret: name of its kubeconfig Secret there, if there is one.
        kubeconfig: path of its credentials for peering.
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
    """A failed plugin, or a failed peering with a cluster, runs again."""

    TOPIC: ClassVar[str] = "discovery.begun"
    plugin: str = ""
    cluster: str = ""


class DiscoveryFailed(TopicEvent, frozen=True, kw_only=True):
    """A discovery plugin does not run, or peering with a cluster fails.

    Attributes:
        plugin: the plugin, if one failed.
        cluster: the cluster, if a peering failed.
        reason: reason of the failure.
        failures: number of failures in a row.
        retry_in: seconds until the next attempt.
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
    """The missing admission policies for guests changed."""

    TOPIC: ClassVar[str] = "policies"
    missing: tuple[str, ...]


class WebhookChanged(TopicEvent, frozen=True, kw_only=True):
    """The webhook got a certificate, its path was tested, or a step failed.

    Attributes:
        certified: the hosts of a new certificate.
        reachable: whether the API server reaches it.
        reason: reason that it is unreachable, or that the step failed.
        failed: the failed step.
    """

    TOPIC: ClassVar[str] = "webhook"
    certified: tuple[str, ...] = ()
    reachable: bool | None = None
    reason: str = ""
    failed: str = ""


class MissedPod(TopicEvent, frozen=True, kw_only=True):
    """A pod missed by the webhook may now run on virtual nodes, or one that has waited for a place
    in this cluster for so many seconds."""

    TOPIC: ClassVar[str] = "missed"
    pod: str
    tolerates: bool = False
    waited: int = 0


class KeysFailed(TopicEvent, frozen=True, kw_only=True):
    """The cluster's own keys could not be read or created."""

    TOPIC: ClassVar[str] = "keys"
    failed: str


class OffloadingChanged(TopicEvent, frozen=True, kw_only=True):
    """The offloading of a namespace changed or ended."""

    TOPIC: ClassVar[str] = "offloading"
    namespace: str = ""
    phase: str = ""
    problem: str = ""
    ended: bool = False


class OrphanSwept(TopicEvent, frozen=True, kw_only=True):
    """The remaining objects of a removed consumer were deleted, or their deletion waits.

    Attributes:
        kind: their kind.
        map: the NamespaceMap that they were made for.
        awaits: the object that has to go first.
        swept: their number, if they are not named.
    """

    TOPIC: ClassVar[str] = "orphans"
    kind: str
    awaits: str = ""
    name: str = ""
    map: str = ""
    swept: int = 0


class ForeignClusterSwept(TopicEvent, frozen=True, kw_only=True):
    """The ForeignCluster of a removed peer was deleted."""

    TOPIC: ClassVar[str] = "foreigncluster"
    name: str
    did: str = ""


class NetworkSwept(TopicEvent, frozen=True, kw_only=True):
    """The remaining network setup of a removed peer was deleted from this machine."""

    TOPIC: ClassVar[str] = "network"
    peer: str
    did: str


# Of one peer


class PeerSeen(TopicEvent, frozen=True, kw_only=True):
    """A peer was found: its tenant namespace exists in this cluster."""

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
    """The cluster is no longer a peer."""

    TOPIC: ClassVar[str] = "peer.gone"


class PeeringStep(TopicEvent, frozen=True, kw_only=True):
    """The current step of peering with the cluster."""

    TOPIC: ClassVar[str] = "peer.introduction"
    step: str


class LinkChanged(TopicEvent, frozen=True, kw_only=True):
    """The peer's API server answers, or does not, with the reason."""

    TOPIC: ClassVar[str] = "peer.link"
    up: bool
    reason: str


class PeerDaemonChanged(TopicEvent, frozen=True, kw_only=True):
    """The peer's daemon runs or not, with the evidence."""

    TOPIC: ClassVar[str] = "peer.daemon"
    runs: bool
    reason: str


class IdentityChanged(TopicEvent, frozen=True, kw_only=True):
    """The result of the daemon's work on an identity issued by the peer, or on its Secret.

    Attributes:
        identity: its name.
        secret: name of its Secret.
        did: the action on the Secret.
        renewed: whether another certificate was accepted.
        moves: the new address that the peer reports.
        not_yet: reason that the new address is not yet trusted.
        refused: reason that the identity is refused.
        failed: reason that a Secret cannot be used.
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
    """The peer's nonce was signed, or refused with a reason."""

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
        did: the action at the peer.
        state: ``running`` at the start.
        server: the API server.
        waits: the condition that has to return first.
        refused: reason that the peer refuses it.
        failed: reason that it failed.
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
    """A virtual node is ready or not, was removed, or a step of it failed."""

    TOPIC: ClassVar[str] = "peer.node"
    node: str
    ready: bool | None = None
    removed: bool = False
    failed: str = ""
    reason: str = ""


class NodeDraining(TopicEvent, frozen=True, kw_only=True):
    """The drain of a virtual node waits for a condition."""

    TOPIC: ClassVar[str] = "peer.drain"
    node: str
    waits: str


class InheritedFreed(TopicEvent, frozen=True, kw_only=True):
    """A finalizer left behind by Liqo was removed."""

    TOPIC: ClassVar[str] = "peer.inherited"
    kind: str
    name: str
    finalizer: str


class PeeringEnds(TopicEvent, frozen=True, kw_only=True):
    """The peering ends: its initiator, the deleted object, the reason that it is complete."""

    TOPIC: ClassVar[str] = "peer.leaving"
    leaving: bool | None = None
    namespace: str = ""
    did: str = ""
    ended: str = ""


class ForeignClusterDeleted(TopicEvent, frozen=True, kw_only=True):
    """Our ForeignCluster of the peer was deleted."""

    TOPIC: ClassVar[str] = "peer.foreigncluster"
    did: str


class SliceLent(TopicEvent, frozen=True, kw_only=True):
    """Our verdict on a slice that the peer requests.

    Attributes:
        slice: its name.
        conditions: its conditions, by type.
        cordoned: reason that it is cordoned again.
    """

    TOPIC: ClassVar[str] = "peer.lent"
    slice: str
    conditions: dict[str, str] = {}
    cordoned: str = ""


class NamespaceMapped(TopicEvent, frozen=True, kw_only=True):
    """A namespace requested by the peer, or its whole map, is not accepted."""

    TOPIC: ClassVar[str] = "peer.namespacemap"
    name: str = ""
    namespace: str = ""
    phase: str = ""
    reason: str


class ShadowPodWaits(TopicEvent, frozen=True, kw_only=True):
    """The reason that a ShadowPod has no pod."""

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
    """The reason that endpoints of the peer are not relayed; without a reason: they are."""

    TOPIC: ClassVar[str] = "peer.endpoints.refused"
    namespace: str
    name: str
    reason: str


class ServiceImported(TopicEvent, frozen=True, kw_only=True):
    """The parts of peers' exports of one name that are left out; without a reason: all are used."""

    TOPIC: ClassVar[str] = "services.imported"
    namespace: str
    name: str
    refused: str


class RenewalAnswered(TopicEvent, frozen=True, kw_only=True):
    """The newest certificate was written into a Renew."""

    TOPIC: ClassVar[str] = "peer.renewal"
    renew: str


class NonceMade(TopicEvent, frozen=True, kw_only=True):
    """A nonce was written into the Secret that requests it."""

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
    """A peer's GatewayServer or GatewayClient is accepted, refused, or waits for a condition.

    Attributes:
        kind, name: of the object.
        waits: a sentence; empty if nothing is missing.
    """

    TOPIC: ClassVar[str] = "peer.gateway"
    kind: str
    name: str
    waits: str = ""


class TunnelChanged(TopicEvent, frozen=True, kw_only=True):
    """The state of the tunnel: Connected, Connecting or Error; with the reason, if any.

    Attributes:
        path, endpoint: its new path, such as ``websocket``, and endpoint, if changed.
    """

    TOPIC: ClassVar[str] = "peer.tunnel"
    state: str
    reason: str = ""
    path: str = ""
    endpoint: str = ""


# Of what is reflected to one peer


class NamespaceSession(TopicEvent, frozen=True, kw_only=True):
    """The mapping of a namespace at the peer began (``started``) or ended (``ended``)."""

    TOPIC: ClassVar[str] = "peer.namespace"
    namespace: str
    state: str


class KindRead(TopicEvent, frozen=True, kw_only=True):
    """The reason that a kind cannot be read at the peer; empty: it can."""

    TOPIC: ClassVar[str] = "peer.kind"
    kind: str
    problem: str


class Reflected(TopicEvent, frozen=True, kw_only=True):
    """An action on a reflected object.

    Attributes:
        namespace: the object's namespace in this cluster.
        action: the action, such as ``create``.
        reason: its reason.
        kind: kind of the object at the peer, if the reflector writes several.
    """

    TOPIC: ClassVar[str] = "peer.reflection"
    reflector: str
    namespace: str
    name: str
    action: str
    reason: str = ""
    kind: str = ""
