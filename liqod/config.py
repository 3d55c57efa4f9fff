"""The daemon's configuration: one TOML file, decoded strictly, and a few environment variables.

An unknown key is an error that names it and the nearest known one. Everything has a default, so
that a daemon in a cluster needs no file at all. Secrets are paths, never values. Precedence:
environment over file over default; :func:`load` is a pure function of the text and the environment.
"""

import logging
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from liqod.configsections import GuestSettings as GuestSettings
from liqod.configsections import HandshakeSettings as HandshakeSettings
from liqod.configsections import HealthSettings as HealthSettings
from liqod.configsections import InspectorSettings as InspectorSettings
from liqod.configsections import KubeletSettings as KubeletSettings
from liqod.configsections import NetworkSettings as NetworkSettings
from liqod.configsections import PeerDefaults as PeerDefaults
from liqod.configsections import PeerPolicy as PeerPolicy
from liqod.configsections import PeerSettings as PeerSettings
from liqod.configsections import PodNetwork as PodNetwork
from liqod.configsections import ServiceSettings as ServiceSettings
from liqod.configsections import StorageSettings as StorageSettings
from liqod.configsections import (
    Table,
    check_boundary,
    check_handshake,
    check_network,
    check_webhook,
)
from liqod.configsections import WebhookSettings as WebhookSettings
from liqod.errors import ConfigError
from liqod.model.nearest import nearest
from liqod.model.network.apiaddress import place
from liqod.model.objects.podreturns import ReturnTimes
from liqod.plugins import declared

Policy = Literal["DenyList", "AllowList"]
RemoteEvents = Literal["all", "warnings", "none"]
Enforcement = Literal["None", "Soft", "Hard"]
PodSecurity = Literal["privileged", "baseline", "restricted"]
Seconds = Annotated[float, Meta(gt=0)]

log = logging.getLogger(__name__)


class ClusterSettings(Table, frozen=True):
    """How to reach this cluster.

    Attributes:
        kubeconfig: path; empty means ``$KUBECONFIG``, then ``~/.kube/config``, then the service
            account of the pod.
        context: a context of that kubeconfig; empty means its current one.
        namespace: where liqod keeps what is the whole cluster's.
        pod_cidrs: this cluster's pod networks, beside those its nodes name.
        service_cidrs: its service networks, beside those its API server names.
    """

    kubeconfig: str = ""
    context: str = ""
    namespace: str = "liqo"
    pod_cidrs: tuple[str, ...] = ()
    service_cidrs: tuple[str, ...] = ()


class ApiServerSettings(Table, frozen=True):
    """How peers reach this cluster's API server.

    Attributes:
        advertise: URL; empty means the address in the kubeconfig that the daemon itself uses.
        ca_file: path of the authority's PEM certificates; empty means the kubeconfig's.
        for_pods: ``host`` or ``host:port`` at which this cluster's pods at peers find its API
            server, where they may; empty means by the tunnel.
    """

    advertise: str = ""
    ca_file: str = ""
    for_pods: str = ""


class ProviderSettings(Table, frozen=True):
    """Settings of lending: the resources on offer, and the trust in those who borrow.

    Attributes:
        enforcement: how quotas hold pods to their slice (``None``, ``Soft``, ``Hard``).
        accept_default_class: whether slices of the default class are granted.
        default_resources: granted where a slice names none.
        pod_security: Pod Security level of the namespaces made for a consumer.
        object_quota: what a consumer may have in all such namespaces together, divided among their
            ResourceQuotas: counts by resource, and the storage that its claims may ask for, which
            no slice is granted.
        node_labels: labels offered to consumers for their virtual nodes.
        storage_classes, ingress_classes, load_balancer_classes: offered to consumers, the first as
            default; claims of consumers, and Ingresses of those that run Liqo, are of these.
        show_machines: whether consumers learn the sizes of the largest machines, so that pods which
            fit none stay away.
        show_free: whether consumers learn what is free on the nodes, so that their schedulers keep
            pods at home that would wait here; all pods of this cluster are watched for it.
        show_labels: keys of the nodes' labels by which that is grouped, and which consumers learn.
        autoscales: whether nodes are added here for pods that find no place; consumers learn it
            with what is free. Where it is not set, Karpenter's nodes and the cluster autoscaler's
            status tell it.
        drain_timeout: seconds that the pods of a drained tenant have to leave.
    """

    enforcement: Enforcement = "None"
    drain_timeout: Seconds = 120.0
    accept_default_class: bool = True
    default_resources: dict[str, str] = msgspec.field(
        default_factory=lambda: {
            "cpu": "4",
            "memory": "8Gi",
            "pods": "110",
            "ephemeral-storage": "20Gi",
        }
    )
    pod_security: PodSecurity = "baseline"
    object_quota: dict[str, str] = msgspec.field(default_factory=declared.object_quota)
    node_labels: dict[str, str] = msgspec.field(default_factory=dict)
    storage_classes: tuple[str, ...] = ()
    ingress_classes: tuple[str, ...] = ()
    load_balancer_classes: tuple[str, ...] = ()
    show_machines: bool = True
    show_free: bool = False
    show_labels: tuple[str, ...] = ()
    autoscales: bool | None = None


class ConsumerSettings(Table, frozen=True):
    """How this cluster borrows.

    Attributes:
        drain_timeout: seconds that pods have to leave a virtual node, or a peer that their
            namespace leaves, within their disruption budgets; then they are deleted.
        return_unschedulable: seconds after which a pod returns that no node there has a place for.
        return_scaling: the same at a peer that says that it adds nodes, where that is longer.
        return_image: the same where an image cannot be pulled there.
        return_refused: the same where the peer does not take the pod.
        return_back_off: seconds for which its controller's next pods then avoid that peer, at
            first.
        provider_ids: whether virtual nodes have a ``providerID``, for a cloud whose controller
            deletes nodes that are not Ready and that it does not find by their names.
        max_bytes: what is kept in memory of the objects that one provider has for us; beyond, what
            changes there is not followed.
        labels_not_reflected: label keys that stay in this cluster.
        annotations_not_reflected: annotation keys that stay in this cluster.
    """

    drain_timeout: Seconds = 120.0
    return_unschedulable: Annotated[float, Meta(ge=0)] = 600.0
    return_scaling: Annotated[float, Meta(ge=0)] = 1200.0
    return_image: Annotated[float, Meta(ge=0)] = 300.0
    return_refused: Annotated[float, Meta(ge=0)] = 120.0
    return_back_off: Annotated[float, Meta(ge=1)] = 600.0
    provider_ids: bool = False
    max_bytes: Annotated[int, Meta(ge=1 << 20)] = 32 << 20
    labels_not_reflected: tuple[str, ...] = ()
    annotations_not_reflected: tuple[str, ...] = (
        "cloud.google.com/neg",
        "cloud.google.com/neg-status",
        "kubernetes.digitalocean.com/load-balancer-id",
        "ingress.kubernetes.io/backends",
        "ingress.kubernetes.io/forwarding-rule",
        "ingress.kubernetes.io/target-proxy",
        "ingress.kubernetes.io/url-map",
        "metallb.universe.tf/address-pool",
        "metallb.universe.tf/ip-allocated-from-pool",
        "metallb.universe.tf/loadBalancerIPs",
        "loadbalancer.openstack.org/load-balancer-id",
    )

    @property
    def returns(self) -> ReturnTimes:
        """How long pods wait for their start at a peer."""
        return ReturnTimes(
            unschedulable=self.return_unschedulable,
            scaling=self.return_scaling,
            image=self.return_image,
            refused=self.return_refused,
        )


class CertificateSettings(Table, frozen=True):
    """Client certificates that are issued and used.

    Attributes:
        renew_at: the part of a certificate's life after which it is renewed.
        lifetime: seconds asked of the signer for certificates issued here; 0 asks for none, at
            least 600 otherwise (the API server's own bound).
    """

    renew_at: Annotated[float, Meta(gt=0, lt=1)] = 2 / 3
    lifetime: Annotated[int, Meta(ge=0)] = 0


class ElectionSettings(Table, frozen=True):
    """The Lease by which replicas elect the one that works.

    Attributes:
        enabled: without it the daemon leads at once; only for a single replica.
    """

    enabled: bool = True


class ReflectionSettings(Table, frozen=True):
    """Selects the objects that follow a namespace: all but annotated ones, or annotated ones only.

    Attributes:
        policies: by reflector name; a reflector without an entry keeps its own default.
        disabled: names of reflectors that are not to run.
        events: which Events of reflected objects at a peer are reported here.
    """

    policies: dict[str, Policy] = msgspec.field(default_factory=dict)
    disabled: tuple[str, ...] = ()
    events: RemoteEvents = "all"


class PluginSettings(Table, frozen=True):
    """Plugins that are left out, and the tables of those that have settings.

    Attributes:
        blocked: names of plugins not to load.
        settings: by plugin name, decoded by the plugin's own type.
    """

    blocked: tuple[str, ...] = ()
    settings: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)


class Config(Table, frozen=True):
    """The whole file."""

    cluster: ClusterSettings = ClusterSettings()
    api_server: ApiServerSettings = ApiServerSettings()
    webhook: WebhookSettings = WebhookSettings()
    kubelet: KubeletSettings = KubeletSettings()
    health: HealthSettings = HealthSettings()
    inspector: InspectorSettings = InspectorSettings()
    provider: ProviderSettings = msgspec.field(default_factory=ProviderSettings)
    guests: GuestSettings = msgspec.field(default_factory=GuestSettings)
    consumer: ConsumerSettings = ConsumerSettings()
    certificates: CertificateSettings = CertificateSettings()
    network: NetworkSettings = NetworkSettings()
    handshake: HandshakeSettings = msgspec.field(default_factory=HandshakeSettings)
    policies: tuple[PeerPolicy, ...] = ()
    peer_defaults: PeerDefaults = PeerDefaults()
    peers: tuple[PeerSettings, ...] = ()
    election: ElectionSettings = ElectionSettings()
    reflection: ReflectionSettings = ReflectionSettings()
    storage: StorageSettings = StorageSettings()
    services: ServiceSettings = ServiceSettings()
    plugins: PluginSettings = PluginSettings()

    def peer(self, cluster_id: str) -> PeerSettings:
        """The settings of one peer: its entry, or the defaults."""
        for settings in self.peers:
            if settings.id == cluster_id:
                return settings
        defaults = self.peer_defaults
        return PeerSettings(
            cluster_id,
            pod_network=defaults.pod_network,
            pod_cidrs=defaults.pod_cidrs,
            believed_labels=defaults.believed_labels,
            api_server=defaults.api_server,
            direct_connections=defaults.direct_connections,
        )


def opens_api(config: Config) -> bool:
    """True if pods at any peer may reach this cluster's API server, and by the tunnel."""
    told = (config.peer_defaults.api_server, *(each.api_server for each in config.peers))
    return not config.api_server.for_pods and any(each != "none" for each in told)


ENVIRONMENT: Mapping[str, tuple[str, str]] = {
    "LIQOD_KUBECONFIG": ("cluster", "kubeconfig"),
    "LIQOD_CONTEXT": ("cluster", "context"),
    "LIQOD_NAMESPACE": ("cluster", "namespace"),
    "LIQOD_ADVERTISE": ("api_server", "advertise"),
    "LIQOD_WEBHOOK_ADVERTISE": ("webhook", "advertise"),
    "LIQOD_KUBELET_HOST": ("kubelet", "host"),
    "LIQOD_HEALTH_HOST": ("health", "host"),
    "LIQOD_NODE_NAME": ("network", "node"),
    "LIQOD_NODE_ADDRESS": ("network", "node_address"),
    "LIQOD_DAEMON_USER": ("network", "daemon"),
    "LIQOD_MACHINE": ("network", "machine"),
}
"""The few values that a container sets by environment, and where they go."""
_FOUND: Final = frozenset({"LIQOD_KUBELET_HOST"})
"""Those that a pod is told of itself: what the file says goes before."""

GONE: Mapping[tuple[str, str], str] = {
    ("provider", "direct_pods"): "every guest's pod has a ShadowPod (docs/how-to/upgrades.md)"
}
"""Settings of former versions that a file may still have: they do nothing, as the log says."""

_NOT_SETTINGS = frozenset({"LIQOD_CONFIG", "LIQOD_LOG"})
_OF_PLUGINS = "LIQOD_PLUGIN_"
"""How the variables of plugins begin: they are read by those and by nobody else."""


def parse(text: str, environ: Mapping[str, str] | None = None, *, advertise: str = "") -> Config:
    """The configuration that a file's text and the environment give.

    Args:
        text: of the file.
        environ: variables, which go before the file, but for what a pod is told of itself.
        advertise: ``api_server.advertise`` where neither says one.

    Raises:
        ConfigError: the text is no TOML, a key is unknown, or a value does not fit.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"the configuration is not TOML: {error}") from error
    for variable, value in (environ or {}).items():
        if variable in ENVIRONMENT:
            table, key = ENVIRONMENT[variable]
            found = raw.setdefault(table, {})
            found[key] = found.get(key, value) if variable in _FOUND else value
        elif variable.startswith("LIQOD_") and not _another(variable):
            raise ConfigError(f"unknown variable {variable}{_nearest(variable, ENVIRONMENT)}")
    for (table, key), why in GONE.items():
        if isinstance(found := raw.get(table), dict) and key in found:
            del found[key]
            log.warning("%s.%s is no setting any more: %s", table, key, why)
    _take_opt_ins(raw.get("guests"))
    try:
        config = msgspec.convert(raw, Config)
        if advertise and not config.api_server.advertise:
            told = msgspec.structs.replace(config.api_server, advertise=advertise)
            config = msgspec.structs.replace(config, api_server=told)
    except msgspec.ValidationError as error:
        raise ConfigError(_clarify(str(error))) from error
    return _checked(config)


def _take_opt_ins(guests: object) -> None:
    """Put the names of the consents that are given in one place, where the table has it.

    Raises:
        ConfigError: one is neither true nor false.
    """
    if not isinstance(guests, dict):
        return
    if "opt_ins" in guests:
        raise ConfigError(f"unknown key guests.opt_ins{_nearest('opt_ins', _fields_at('guests'))}")
    on = []
    for each, _ in declared.opt_ins():
        value = guests.pop(each.setting, False)
        if not isinstance(value, bool):
            raise ConfigError(f"Expected `bool`, at `guests.{each.setting}`")
        if value:
            on.append(each.setting)
    guests["opt_ins"] = on


def _another(variable: str) -> bool:
    """True if a variable is liqod's and no setting, or a plugin's."""
    return variable in _NOT_SETTINGS or variable.startswith(_OF_PLUGINS)


def load(path: str | None, environ: Mapping[str, str], *, advertise: str = "") -> Config:
    """Read the file at ``path`` (or ``$LIQOD_CONFIG``), if any, and parse it.

    Raises:
        ConfigError: as :func:`parse`, or the file cannot be read.
    """
    name = path or environ.get("LIQOD_CONFIG", "")
    text = ""
    if name:
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", "") or error
            raise ConfigError(f"cannot read the configuration {name}: {why}") from error
    try:
        return parse(text, environ, advertise=advertise)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}" if name else str(error)) from error


def _checked(config: Config) -> Config:
    if config.kubelet.port == 10250:
        raise ConfigError("kubelet.port: 10250 is the real kubelet's; choose another")
    if 0 < config.certificates.lifetime < 600:
        raise ConfigError("certificates.lifetime: API servers sign for 600 seconds at the least")
    served = config.inspector
    if served.host and not (served.cert_file and served.key_file):
        raise ConfigError("inspector.host: TCP needs inspector.cert_file and inspector.key_file")
    ids = [settings.id for settings in config.peers]
    for cluster_id in ids:
        if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", cluster_id):
            raise ConfigError(f"peers: {cluster_id!r} is no cluster id (a DNS label)")
        if ids.count(cluster_id) > 1:
            raise ConfigError(f"peers: {cluster_id} has more than one entry")
    told = config.api_server.for_pods
    if told and place(told) is None:
        raise ConfigError(f"api_server.for_pods: {told!r} is no host and no host:port")
    check_boundary(config.guests, config.peers, config.peer_defaults)
    check_network(config.network)
    check_webhook(config.webhook)
    if config.network.node_pods == "cni" and not config.cluster.pod_cidrs:
        raise ConfigError(
            "[network] node_pods is 'cni': name the ranges that the CNI gives pods addresses of in "
            "[cluster] pod_cidrs, since those of the nodes say nothing of them"
        )
    check_handshake(config.handshake, config.policies, config.peers)
    return config


def _nearest(name: str, known: Mapping[str, object] | list[str]) -> str:
    return nearest(name, known, f"; known are {', '.join(known)}")


def _clarify(message: str) -> str:
    """Name the unknown key, where it stands, and the nearest known one."""
    unknown = re.search(r"unknown field `([^`]*)`", message)
    if unknown is None:
        return message.replace("`$.", "`").replace(" - at", ", at")
    where = re.search(r"at `\$\.?([^`]*)`", message)
    place = where.group(1) if where else ""
    fields = _fields_at(re.sub(r"\[[^]]*\]", "", place))
    shown = f"{place}.{unknown.group(1)}" if place else unknown.group(1)
    return f"unknown key {shown}{_nearest(unknown.group(1), fields)}"


_LISTS: Mapping[str, type] = {"peers": PeerSettings, "policies": PeerPolicy}
"""Tables of which there are several."""


def _fields_at(place: str) -> list[str]:
    table: type = Config
    for part in filter(None, place.split(".")):
        types = {field.name: field.type for field in msgspec.structs.fields(table)}
        found = _LISTS.get(part, types.get(part))
        if not isinstance(found, type) or not issubclass(found, msgspec.Struct):
            return []
        table = found
    found = [field.name for field in msgspec.structs.fields(table)]
    if table is GuestSettings:
        found.remove("opt_ins")
        found += [each.setting for each, _ in declared.opt_ins()]
    return found
