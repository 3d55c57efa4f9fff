"""The contract of a reflector plugin: a frozen description and two pure functions of values.

A :class:`Reflector` says how objects of one kind look at a peer. It does no I/O, has no clock and
never changes its arguments: ``outgoing(object, view)`` and ``incoming(object, remote, view)``
return a :class:`Plan`, and the engine (:mod:`liqod.reflection`) carries it out. The engine records
all that a function reads through its :class:`View`, so that a change there calls it again. Values
that are not in objects (a token, a full object over there) it requests as a :class:`Need`.

The contracts of the other plugins are in :mod:`liqod.plugins.providers`; the suite that holds a
reflector to this one is :mod:`simulator.suites`.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Protocol

import msgspec

from liqod.apimachinery.kinds import CLAIMS as CLAIMS
from liqod.apimachinery.kinds import CONFIG_MAPS as CONFIG_MAPS
from liqod.apimachinery.kinds import ENDPOINT_SLICES as ENDPOINT_SLICES
from liqod.apimachinery.kinds import PODS as PODS
from liqod.apimachinery.kinds import SECRETS as SECRETS
from liqod.apimachinery.kinds import SERVICES as SERVICES
from liqod.apimachinery.kinds import Kind as Kind
from liqod.model.crossing.thirdclusters import ThirdCluster as ThirdCluster
from liqod.model.crossing.thirdclusters import Transit as Transit
from liqod.model.network.ranges import PeerRanges as PeerRanges
from liqod.model.objects.homeapi import HomeApi as HomeApi
from liqod.model.objects.podreturns import ReturnTimes as ReturnTimes
from liqod.plugins.grants import READ as READ
from liqod.plugins.grants import AdmissionPolicy as AdmissionPolicy
from liqod.plugins.grants import Grant as Grant
from liqod.plugins.grants import OptIn as OptIn
from liqod.plugins.grants import Right as Right
from liqod.plugins.grants import Validation as Validation

API = 1
"""Version of the contracts; a plugin names the one it was written for."""

Json = dict[str, Any]
"""An object as the API server writes it. Functions of a plugin read it and never change it."""


SERVER_FIELDS = frozenset(
    {
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
        "ownerReferences",
        "finalizers",
        "generateName",
    }
)
"""Fields of metadata that never cross: the API server's own, and those of local meaning."""


class Policy(Enum):
    """The rule that selects the objects of a kind that follow their namespace to a peer."""

    DENY_LIST = "DenyList"
    """All but those annotated ``liqo.io/skip-reflection``."""
    ALLOW_LIST = "AllowList"
    """Only those annotated ``liqo.io/allow-reflection``."""
    ALWAYS = "Always"
    """All; neither configuration nor annotations have a say."""


class Scope(Enum):
    """The set of local objects that are reflected to a peer."""

    NAMESPACE = "namespace"
    """Those of the namespaces mapped there."""
    NODE = "node"
    """Those whose ``spec.nodeName`` is one of the peer's virtual nodes, in any namespace; each is
    written with the identity of that node's slice."""


class Watch(Enum):
    """How much of the objects at the peer the engine keeps."""

    FULL = "full"
    """Whole objects: ``incoming`` is given them."""
    METADATA = "metadata"
    """Metadata only: enough for existence, ownership and drift."""


class Write(Enum):
    """How an object at the peer is written."""

    MERGE = "merge"
    """Created, then merge-patched: objects that are nobody else's."""
    APPLY = "apply"
    """Server-side apply: objects of which others own fields too."""
    ONCE = "once"
    """Created; afterwards only labels and annotations follow, and of the content what
    :attr:`RemoteKind.follows` names. The object stands for one local object, whose UID it carries:
    another UID means delete, wait, create."""


class Several(Enum):
    """How several peers' answers become the status of one object here, and the objects that are
    made from it here. It has no effect for reflectors of objects on nodes: those are at one peer
    only."""

    FIRST = "first"
    """The answer of the first peer that gives one, in the order of their ids."""
    BY_PEER = "by peer"
    """All peers' answers: their fields and objects always differ (``status.clusters.PEER``)."""
    MERGED = "merged"
    """The result of ``combine`` of all answers; of objects of one name the first one's."""


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ``config_type`` of a plugin that has no settings."""


class RemoteKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind at the peer that a reflector writes or watches.

    Attributes:
        kind: the kind.
        write: how it is written; None for a kind that is only watched.
        watch: how it is watched.
        fields: a field selector, for a kind that is only watched (``write=None``): an object that
            it does not select is as good as not there. One that leaves the selection may still be
            there, so its absence alone decides nothing.
        debounce: the seconds for which a changed object, given as JSON, may wait for its next
            change before the reflector is asked; None for none.
        follows: with ``Write.ONCE``: paths of what follows the local object afterwards, too, such
            as ``spec.pod.containers[*].image`` (of items by their names). A part that the peer's
            API server does not take is a refusal like any other; the object is never made anew.
        fixed: with ``Write.APPLY``: paths of what an API server keeps as an object was made, also
            where an apply does not name it any more, such as ``spec.clusterIP``. Where the local
            object is another one of the same name, and wants another value or none, the one there
            is made anew.
        content: where an object of another kind than the local one holds what is the local one's
            ``spec``, such as ``spec.pod``: there policies change it (docs/how-to/overrides.md).
            Empty for none; of the same kind they change the object itself.
    """

    kind: Kind
    write: Write | None = Write.MERGE
    watch: Watch = Watch.METADATA
    fields: str = ""
    debounce: Callable[[bytes], float] | None = None
    follows: tuple[str, ...] = ()
    fixed: tuple[str, ...] = ()
    content: str = ""


class Governor(msgspec.Struct, frozen=True, kw_only=True):
    """The object whose annotations and policy govern an object without an annotation of its own.

    Attributes:
        reflector: the name of the reflector whose policy counts.
        kind: the kind of the governing object; it must be among the kinds read.
        label: the label whose value names it, in the same namespace.
    """

    reflector: str
    kind: Kind
    label: str


class Reason(msgspec.Struct, frozen=True):
    """Why something is as it is: shown by ``status``, and once as an Event on the local object.

    Attributes:
        code: one CamelCase word, such as ``FailedReflection``.
        message: one sentence.
        expected: whether it is as it is meant to be: then it is a Normal Event and no problem.
        governor: whether the Event is of the object that governs this one, where there is one
            (:class:`Governor`): several of one governor that say the same are one Event.
    """

    code: str
    message: str
    expected: bool = False
    governor: bool = False


class Refusal(msgspec.Struct, frozen=True):
    """The peer's API server refused the last write for this object.

    Attributes:
        status: the HTTP status: 403 (quota, cordon, missing right), 409 or 422.
        message: the server's own words.
        kind: the kind that was refused.
        retried: whether the engine tries again by itself (a 422 waits for a change).
    """

    status: int
    message: str
    kind: Kind
    retried: bool


class Need(msgspec.Struct, frozen=True, tag=True):
    """Something the engine fetches, keeps until it expires and shows in the view.

    A need is a value, so two objects that ask for the same share one answer.
    """


class ServiceAccountToken(Need, frozen=True, kw_only=True):
    """A token of a local service account, bound to a pod; fulfilled by a :class:`Token`.

    Attributes:
        account: the service account, in the object's own namespace.
        pod: name of the pod it is bound to.
        pod_uid: UID of that pod.
        audience: whom it is for; empty means the API server.
        seconds: asked life; less than 600 is 600 (the API server's own bound), more than 3600 is
            3600: what is asked here is for a peer.
        lasts: seconds until the answer is old, and a token is asked again if still needed; 0 for
            four fifths of its life.
    """

    account: str
    pod: str
    pod_uid: str
    audience: str = ""
    seconds: int = 3600
    lasts: float = 0.0


class RemoteObject(Need, frozen=True, kw_only=True):
    """A whole object over there that the watch does not show; fulfilled by it, or by ``{}``.

    Attributes:
        kind: its kind, one that the reflector declares.
        name: its name, in the mapped namespace.
        version: the resourceVersion seen; with another one it is another need.
        lasts: seconds until the answer is old, and the object is read again if still needed.
        patient: what is shown here may wait for it, while many are asked for at once: the status
            stays as it is until its turn has come, and all else of the object goes on.
    """

    kind: Kind
    name: str
    version: str = ""
    lasts: float = 600.0
    patient: bool = False


class Token(msgspec.Struct, frozen=True):
    """The answer to a :class:`ServiceAccountToken`.

    Attributes:
        text: the token; it is shown nowhere.
        expires: RFC 3339 time of its end.
        problem: why this cluster gives none, where it does not; empty otherwise.
    """

    text: str
    expires: str
    problem: str = ""

    def __repr__(self) -> str:
        return f"Token(expires={self.expires!r}, problem={self.problem!r})"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The wanted state. The plans of ``outgoing`` and of ``incoming`` together make the decision.

    Attributes:
        remote: objects wanted at the peer: kind, apiVersion, metadata.name, labels, annotations
            and content. The engine adds the namespace and the marks of ownership, and removes
            what this object has there and is not listed.
        hold: leave what is there as it is, neither written nor removed.
        status: merge patch of the local object's status; None where there is nothing to say. A
            status that is so already is not written again; see :class:`Several`.
        debounce: seconds the status may wait for a better one to save a write.
        requeue_after: seconds after which the function is to be called again though nothing
            changed.
        local: objects wanted in the local namespace, owned by the local object and gone with it.
        delete_local: delete the local object (grace 0, its UID) once nothing of it is left there.
        orphan_remote: with ``delete_local``: do so now, whatever is left there.
        end_local: delete the local object with its own grace, once ``status`` is written, unless
            it is being deleted: what stands for it there was taken away. It ends there then, as
            whatever is deleted here.
        reasons: why, for those who look.
        needs: what must be fetched before this plan is complete; nothing else of the plan is
            carried out while one is missing.
    """

    remote: tuple[Json, ...] = ()
    hold: bool = False
    status: Json | None = None
    debounce: float = 0.0
    requeue_after: float | None = None
    local: tuple[Json, ...] = ()
    delete_local: bool = False
    orphan_remote: bool = False
    end_local: bool = False
    reasons: tuple[Reason, ...] = ()
    needs: tuple[Need, ...] = ()


NOTHING = Plan()
"""Nothing is wanted there, nothing changes here."""


class Absence(Enum):
    """The state of the mapping of an object's namespace at the peer."""

    MAPPED = "mapped"
    UNKNOWN = "unknown"
    """The mapping has not been read yet, or cannot be: decide nothing by it."""
    AWAITED = "awaited"
    """This cluster asks for it; the peer has not (or no longer) made it."""
    BRIEF = "brief"
    """It is off the map since a short time only."""
    LASTING = "lasting"
    """It has been off the map throughout the grace time."""


class VirtualNode(msgspec.Struct, frozen=True, kw_only=True):
    """One virtual node of the peer.

    Attributes:
        name: its name, and that of its Node.
        slice: the ResourceSlice whose identity writes for it.
        patch: its ``offloadingPatch``, as the API server has it.
        labels: labels of the node's resource, such as os and arch.
        takes: words of the consents that its provider gives (:class:`OptIn`).
        scales: whether its provider says that it adds nodes for pods that find no place.
        storage_classes: those that its provider offers, the one to take first.
        ingress_class: the class of Ingresses that its provider offers as default; empty for none.
        load_balancer_class: the same of Services of the type LoadBalancer.
    """

    name: str
    slice: str
    patch: Mapping[str, Any] = {}
    labels: Mapping[str, str] = {}
    takes: frozenset[str] = frozenset()
    scales: bool = False
    storage_classes: tuple[str, ...] = ()
    ingress_class: str = ""
    load_balancer_class: str = ""


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """The names and settings that a translation may depend on; a change calls it again.

    Attributes:
        consumer: this cluster's id.
        peer: the peer's id.
        namespace: the local namespace.
        remote_namespace: its name at the peer; empty while it is not mapped.
        absence: whether it is mapped.
        nodes: the peer's virtual nodes by name.
        elsewhere: the virtual nodes of other peers by name, each with the cluster that it is of.
        pod_network: whether addresses of pods cross: ``none``, ``routed`` (as they are) or
            ``tunnel`` (translated).
        ranges: of the two clusters, by which addresses are translated; None where they are not
            known or not used.
        pod_cidrs: this cluster's own pod networks.
        service_cidrs: this cluster's own service networks.
        peer_cidrs: the networks that the peer's pods may be in; None for any.
        node_address: the address that virtual nodes show.
        node_addresses: the addresses of this cluster's own nodes.
        labels_not_reflected: label keys that stay here by configuration; patches of virtual
            nodes name more (:mod:`liqod.plugins.crossing`).
        annotations_not_reflected: annotation keys that stay here in the same way.
        home_api: how far the peer's pods may speak with this cluster's API server.
        storage: whether claims of the virtual StorageClass follow pods.
        unreachable: why nothing gets through to what runs at the peer, a sentence; empty where it
            does, None while that is not known.
        returns: how long pods wait there for their start before they return.
    """

    consumer: str
    peer: str
    namespace: str
    remote_namespace: str = ""
    absence: Absence = Absence.MAPPED
    nodes: Mapping[str, VirtualNode] = {}
    elsewhere: Mapping[str, ThirdCluster] = {}
    pod_network: str = "none"
    ranges: PeerRanges | None = None
    pod_cidrs: tuple[str, ...] = ()
    service_cidrs: tuple[str, ...] = ()
    peer_cidrs: tuple[str, ...] | None = None
    node_address: str = "127.0.0.1"
    node_addresses: frozenset[str] = frozenset()
    labels_not_reflected: frozenset[str] = frozenset()
    annotations_not_reflected: frozenset[str] = frozenset()
    home_api: HomeApi = HomeApi()
    storage: bool = False
    unreachable: str | None = ""
    returns: ReturnTimes = ReturnTimes()

    @property
    def crosses(self) -> bool:
        """True if addresses of pods cross, as they are or translated."""
        joined = self.pod_network == "tunnel" and self.ranges is not None
        return joined or self.pod_network == "routed"


class View(Protocol):
    """The objects and settings that a function of a reflector may read. All reads are watched."""

    @property
    def names(self) -> Names:
        """Names and settings."""
        ...

    @property
    def settings(self) -> Any:
        """The reflector's own settings, as its ``config_type``."""
        ...

    @property
    def now(self) -> str:
        """RFC 3339 time, for the conditions of a status."""
        ...

    @property
    def ahead(self) -> float:
        """Seconds by which the peer's clock is ahead of :attr:`now`; 0 while that is not known."""
        ...

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """Why the last writes for this object failed; empty when they did not."""
        ...

    def get(self, kind: Kind, name: str, namespace: str | None = None) -> Json | None:
        """A local object of a kind that the reflector reads (in its own namespace by default).

        Raises:
            PluginError: the reflector does not declare that it reads this kind.
        """
        ...

    def all(self, kind: Kind, namespace: str | None = None) -> tuple[Json, ...]:
        """All local objects of such a kind in a namespace, by name. Raises as :meth:`get`."""
        ...

    def remote(self, kind: Kind) -> tuple[Json, ...]:
        """The objects that this one has at the peer, by name: whole or metadata, as declared."""
        ...

    def gone(self, kind: Kind) -> Json | None:
        """The last object of a kind that this one lost at the peer, as it was before it went.

        It is shown until the plan that was made with it has been carried out, also where another
        one has its name by then. Of kinds watched in full only; None where none went.
        """
        ...

    def fulfilled(self, need: Need) -> Any:
        """The answer to a need; None until it has been fetched."""
        ...

    def transit(self, owner: str, address: str) -> Transit:
        """The address by which the peer's pods reach an endpoint at another peer, through here.

        One that is asked for is kept for the object while its newest decision asks for it, where
        the configuration allows it; it may take a moment until there is one.

        Args:
            owner: id of the peer that has the endpoint.
            address: of the endpoint, as this cluster uses it.
        """
        ...

    def overridden(self, made: Json) -> Json:
        """An object that ``outgoing`` wants at the peer, as OverridePolicies change it.

        The engine does this with each object of the plan; ``incoming`` calls it where it compares
        what is there with what was wanted. The argument is not changed.
        """
        ...


Outgoing = Callable[[Json, View], Plan]
Incoming = Callable[[Json, tuple[Json, ...], View], Plan]
Combine = Callable[[Json, Mapping[str, Json]], Json]


class Reads(msgspec.Struct, frozen=True):
    """Another local kind that a reflector reads.

    Attributes:
        kind: the kind.
        everywhere: watched in all namespaces; otherwise in those that are mapped.
    """

    kind: Kind
    everywhere: bool = False


class Reflector(msgspec.Struct, frozen=True, kw_only=True):
    """How one kind looks at a peer.

    Attributes:
        name: what configuration and ``liqod plugins`` call it, such as ``configmaps``.
        kind: the local kind.
        outgoing: what is wanted there for a local object.
        incoming: what is wanted here, given the objects there that are watched in full. Unless
            the scope is the node, the local object comes without its status: what a peer says is
            not to depend on what another one has said.
        remote: the kinds it writes and watches at the peer.
        local: the kinds of the objects it makes here.
        reads: the other local kinds it reads.
        scope: which local objects concern a peer.
        selector: a label selector on local objects; empty means all.
        policy: the default policy.
        always: names reflected whatever the policy.
        governor: whose policy counts for objects that have no annotation of their own.
        several: the rule for what several peers say of one object.
        combine: with ``Several.MERGED``: the status that is wanted here, of the local object
            (without its status) and what each peer says, by its id.
        offered: whether a provider takes what it writes, as one of its virtual nodes shows; where
            none does, it has nothing to do with that peer. None for what everybody takes.
        rights: what the daemon may do with its kinds in its own cluster. Those that the daemon has
            anyway are not granted twice.
        grant: what a provider grants its consumers for the kinds that it writes; None for what is
            granted by another reflector, or by nobody.
        concurrency: objects handled at once, per peer.
        config_type: the struct its table of the configuration is decoded as; ``view.settings``.
        api: the version of this contract.
    """

    name: str
    kind: Kind
    outgoing: Outgoing
    incoming: Incoming | None = None
    remote: tuple[RemoteKind, ...]
    local: tuple[Kind, ...] = ()
    reads: tuple[Reads, ...] = ()
    scope: Scope = Scope.NAMESPACE
    selector: str = ""
    policy: Policy = Policy.DENY_LIST
    always: tuple[str, ...] = ()
    governor: Governor | None = None
    several: Several = Several.FIRST
    combine: Combine | None = None
    offered: Callable[[VirtualNode], bool] | None = None
    rights: tuple[Right, ...] = ()
    grant: Grant | None = None
    concurrency: int = 3
    config_type: type[Any] = NoSettings
    api: int = API

    @property
    def written(self) -> tuple[RemoteKind, ...]:
        """The kinds it writes there."""
        return tuple(each for each in self.remote if each.write is not None)

    def declaration(self, api_version: str, kind: str) -> RemoteKind | None:
        """The declaration of a kind that it writes there, as manifests name it; None for others."""
        for each in self.written:
            if each.kind.name == kind and each.kind.api_version == api_version:
                return each
        return None
