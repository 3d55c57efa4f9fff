"""``install``: put what the daemon needs into a cluster, or upgrade it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from liqod.apimachinery import labels
from liqod.cli import files, output, terminal
from liqod.cli.clusters import AGENT
from liqod.cli.frame import OUTPUTS, Frame, command
from liqod.cli.options import LiqoNamespace
from liqod.cluster.ownid import cluster_id as cluster_id_of
from liqod.cluster.ownid import take_over
from liqod.errors import ConfigError, Misuse
from liqod.install import (
    clustersetdns,
    dnsserver,
    machines,
    plugingrants,
    refusals,
    rollout,
    verbs,
    workload,
)
from liqod.install.daemonkubeconfig import daemon_kubeconfig
from liqod.install.manifests import Manifest, Options, added_in_cluster, printable, render
from liqod.install.refusals import InstallRefused
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.model.clusterset.corefile import ZONE
from liqod.model.ids import is_dns_subdomain
from liqod.plugins.checks.services import names
from liqod.plugins.diagnosis import ClusterFacts
from liqod.procedures import askingnames, sharedservices
from liqod.resources.crdmanifests import crd_manifests

DEFAULT = Options()
Advertise = Annotated[
    str,
    typer.Option(
        help="This API server's URL as peers reach it, in the cluster.",
        show_default="as in the kubeconfig",
    ),
]
Image = Annotated[
    str,
    typer.Option(help="Its container image, in the cluster.", show_default="liqod:VERSION"),
]
NodeImage = Annotated[
    str,
    typer.Option(help="That of `liqod node` there.", show_default="IMAGE-node"),
]
Architecture = Annotated[
    list[workload.Architecture] | None,
    typer.Option(
        "--architecture",
        help="Of the nodes that both images are for; others get no pods. Several may be named.",
        show_default="both",
    ),
]
InCluster = Annotated[
    bool, typer.Option("--in-cluster", help="The daemon is to run in the cluster.")
]
NetworkingDisabled = Annotated[
    bool,
    typer.Option(
        "--networking-disabled",
        help="In the cluster, without rights on its node: it joins no networks.",
    ),
]
ClusterProfiles = Annotated[
    bool,
    typer.Option(
        "--cluster-profiles",
        help="Let the daemon read and write ClusterProfiles, for the discovery plugin.",
    ),
]
Storage = Annotated[
    bool,
    typer.Option(
        "--storage", help="With the StorageClass liqo, and the rights to provision its volumes."
    ),
]
Services = Annotated[
    bool,
    typer.Option(
        "--services",
        help="With the kinds ServiceExport and ServiceImport, and the rights to share Services.",
    ),
]
ServicesDns = Annotated[
    bool | None,
    typer.Option(
        "--services-dns/--no-services-dns",
        help="With --services, and the cluster's CoreDNS serves their names; or no longer.",
        show_default="as it is",
    ),
]
DnsServer = Annotated[
    bool | None,
    typer.Option(
        "--dns-server/--no-dns-server",
        help="With --services, and a DNS server of its own for their names; or no longer.",
        show_default="as it is",
    ),
]
Clusterset = Annotated[
    str,
    typer.Option(
        help="The id of the set of clusters: it and this cluster's become ClusterProperties.",
        show_default="as it is",
    ),
]
DnsImage = Annotated[
    str,
    typer.Option(help="The image of CoreDNS for that.", show_default="the cluster's own"),
]
Plugin = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        help="Grant the daemon what the reflectors of this installed plugin declare, to reflect "
        "their kinds to peers. Several may be named.",
    ),
]
Lend = Annotated[
    list[str] | None,
    typer.Option(
        "--lend",
        help="Let consumers have the kinds of this plugin's reflectors here, within what they "
        "declare. Several may be named.",
    ),
]
Restored = Annotated[
    bool,
    typer.Option(
        "--restored",
        help="This is the cluster that its key comes from, restored; that one is gone.",
    ),
]
AnyClock = Annotated[
    bool,
    typer.Option(
        "--any-clock", help="Go on though this machine's clock differs from the API server's."
    ),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before granting to plugins.")]
KubeconfigFile = Annotated[
    Path | None, typer.Option(help="Write a kubeconfig for a daemon outside the cluster.")
]


@command(timeout=120.0, outputs=OUTPUTS)
async def install(
    frame: Frame,
    cluster_id: Annotated[
        str, typer.Option(help="This cluster's id, for good: a DNS label.", show_default="as it is")
    ] = "",
    write_kubeconfig: KubeconfigFile = None,
    in_cluster: InCluster = False,
    image: Image = DEFAULT.image,
    node_image: NodeImage = "",
    architecture: Architecture = None,
    networking_disabled: NetworkingDisabled = False,
    storage: Storage = False,
    services: Services = False,
    services_dns: ServicesDns = None,
    dns_server: DnsServer = None,
    dns_image: DnsImage = "",
    clusterset: Clusterset = "",
    replicas: Annotated[int, typer.Option(help="How many, in the cluster.", min=1)] = 1,
    advertise: Advertise = "",
    cluster_profiles: ClusterProfiles = False,
    restored: Restored = False,
    plugin: Plugin = None,
    lend: Lend = None,
    yes: Yes = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every manifest and change nothing.")
    ] = False,
    any_clock: AnyClock = False,
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Put what the daemon needs into a cluster, or upgrade it.

    In the cluster the daemon's node is a gateway. A DaemonSet of `liqod node` is in the network of
    each node. Its capabilities are CHOWN, KILL, NET_ADMIN, NET_BIND_SERVICE, NET_RAW, SETGID,
    SETUID and SYS_ADMIN. The daemon has no capability. --networking-disabled leaves all of that
    out.

    It is refused before anything is changed where Kubernetes is too old, rights are missing, Liqo
    runs, liqod has another namespace or something else has this one, clocks differ, or the image is
    for no node. All reasons are named at once; -o json has them in `refused`.

    With --storage the daemon may provision volumes of the StorageClass liqo, once [storage] of its
    configuration says enabled = true. A new installation in the cluster says so, and an upgrade
    keeps that.

    With --services the daemon may share exported Services with peers, once [services] of its
    configuration says enabled = true. Kinds that another program has installed stay as they are,
    and an upgrade keeps what there is.

    With --services-dns CoreDNS (1.12.2 or newer, and kept by nobody else) serves their names: it
    gets the right to read ServiceImports, and its Corefile in kube-system the zone, which --dry-run
    prints. Its pods are made anew. An upgrade keeps it; `liqod uninstall` takes it back first.

    With --dns-server two pods of CoreDNS in liqod's own namespace serve their names and no others,
    for clusters whose DNS server somebody else keeps: have that one forward clusterset.local to the
    address that is printed. An upgrade keeps them.

    With --clusterset some programs of a set find the ClusterProperties that they need. Those of
    another program stay. An upgrade keeps them, and `liqod uninstall` takes them away.

    With --in-cluster -o yaml only the manifests are printed that a daemon in the cluster adds to
    an installation: workloads, their namespaces and policy. With --dry-run -o yaml all of them are,
    but ClusterProperties and the gateways' templates that liqoctl looks for. kubectl takes those
    only once their kinds are there.

    With --cluster-profiles the daemon gets the rights of the discovery plugin `clusterprofile`, in
    the ClusterRole liqod-clusterprofiles; an upgrade keeps them, and `liqod uninstall` takes them.

    Of other packages no code is loaded but of the plugins that --plugin and --lend name. The rights
    that their reflectors declare are shown before they are granted, and --dry-run prints them; an
    upgrade keeps them.

    \b
    Examples:
      liqod install --cluster-id rome --write-kubeconfig daemon.kubeconfig
      liqod install --cluster-id rome --in-cluster --image registry.example/liqod:TAG
      liqod install --plugin gadgets
      liqod install --cluster-id rome --dry-run -o yaml
    """
    options = Options(
        cluster_id=cluster_id,
        namespace=liqo_namespace,
        in_cluster=in_cluster,
        image=image,
        node_image=node_image,
        architectures=tuple(each.value for each in architecture or ()),
        network=not networking_disabled,
        replicas=replicas,
        server=advertise,
        cluster_profiles=cluster_profiles,
        storage=storage,
        services=services or services_dns is True or dns_server is True,
        services_dns=services_dns,
        dns_server=dns_server,
        dns_image=dns_image,
        clusterset=clusterset,
        plugins=_granted(plugin or (), lend or ()),
        kubeconfig=write_kubeconfig is not None,
        clock=not any_clock,
    )
    files.check_place(write_kubeconfig)
    if options.plugins and not dry_run and frame.output != "text":
        raise Misuse("what is granted to plugins is printed with --dry-run only")
    if dry_run or (in_cluster and frame.output != "text"):
        await _print(frame, options, whole=dry_run)
        return
    _allow(frame, options, yes=yes)
    found = await credentials.load(frame.kubeconfig, frame.context or None)
    async with Client(found, user_agent=AGENT) as client:
        wanted = await _in_pods(client, options, found.ca) if in_cluster else options
        name = await _install(frame, client, wanted, restored=restored)
        if in_cluster:
            await rollout.wait_rolled_out(client, liqo_namespace, frame.progress)
        if write_kubeconfig is not None:
            data = await daemon_kubeconfig(client, found, liqo_namespace, name, frame.progress)
            files.write_private(write_kubeconfig, data)
        if services_dns or dns_server:
            terminal.note(await _names(client, name, liqo_namespace))
    _tell(frame, name, write_kubeconfig)


def _tell(frame: Frame, name: str, kubeconfig: Path | None) -> None:
    """Say what is installed, and the next step."""
    if frame.show({"clusterID": name}):
        return
    frame.print_text(f"liqod is installed in the cluster {name}")
    if kubeconfig is not None:
        frame.print_text(f"next: LIQOD_KUBECONFIG={kubeconfig} liqod run")


def _allow(frame: Frame, options: Options, *, yes: bool) -> None:
    """Take the time that DNS servers need to come up, and ask where plugins are granted something.

    Raises Misuse.
    """
    if options.clusterset and not is_dns_subdomain(options.clusterset):
        raise Misuse(f"--clusterset: {options.clusterset!r} is no DNS subdomain")
    if options.dns_image and options.dns_server is not True:
        raise Misuse("--dns-image goes with --dns-server")
    more = clustersetdns.ROLLED_WITHIN if options.services_dns is not None else 0.0
    more += dnsserver.COMES_WITHIN if options.dns_server else 0.0
    if more:
        frame.allow(frame.timeout + more)
    if options.plugins:
        frame.confirm(f"grants {'; '.join(plugingrants.shown(options.plugins))}", yes=yes)


async def _names(client: Client, cluster_id: str, namespace: str) -> str:
    """A sentence on the names of the set, by an answer of the DNS server where it is reached."""
    known = await sharedservices.read(client, cluster_id)
    known = await askingnames.with_answer(client, known, namespace)
    found = names(ClusterFacts(services=known))
    told = found.evidence if found is not None else "`liqod doctor` shows them"
    own = known.dns.responder if known is not None else None
    forward = f"; liqod-dns is {own.server}, to which {ZONE} is to be forwarded" if own else ""
    return f"names of the set: {told}{forward}"


async def _install(frame: Frame, client: Client, options: Options, *, restored: bool) -> str:
    """Install; the cluster's id. The key of one that was restored is no object of a release.

    Raises:
        InstallRefused: the cluster cannot take it, which ``-o`` prints itself.
    """
    if restored and await refusals.by_helm(client) is not None:
        await take_over(client, options.namespace)
        return await cluster_id_of(client, options.namespace)
    try:
        name = await verbs.install(client, options, frame.progress)
    except InstallRefused as error:
        if frame.show({"refused": error.refusals}):
            raise SystemExit(1) from None
        raise
    if restored:
        await take_over(client, options.namespace)
    return name


def _granted(here: Sequence[str], lent: Sequence[str]) -> tuple[Manifest, ...]:
    """Manifests of the grants for reflectors of plugins, rights here before those of consumers.

    Raises:
        ConfigError: there is no such plugin, or it declares what it may not have.
    """
    made = [one for each in plugingrants.load(here) for one in plugingrants.here(each)]
    made += [one for each in plugingrants.load(lent) for one in plugingrants.lent(each)]
    return tuple(made)


async def _in_pods(client: Client, options: Options, ca: bytes | None) -> Options:
    """The same with the address that peers get; where nothing of it will run is said.

    Raises:
        ConfigError: as :func:`_addressed`.
    """
    wanted = await _addressed(client, options, ca)
    for each in machines.told(await machines.look(client), wanted):
        terminal.note(each)
    return wanted


async def _addressed(client: Client, options: Options, ca: bytes | None) -> Options:
    """The same with the address that peers get.

    Raises:
        ConfigError: they cannot reach the administrator's, and no other was named.
    """
    kept = await rollout.configured(client, options.namespace)
    server = kept or await rollout.advertised(client, options.server)
    return msgspec.structs.replace(options, server=server, ca=(ca or b"").decode("ascii", "ignore"))


async def _print(frame: Frame, options: Options, *, whole: bool) -> None:
    """Print manifests; the cluster is asked only for an id that is not given, and its CoreDNS.

    Raises:
        Misuse: manifests cannot be made of these options.
        ConfigError: CoreDNS is not given the names of the set, or its Corefile is not understood.
    """
    more: list[Manifest] = []
    if whole and not options.cluster_id:
        async with frame.client() as client:
            chosen = await verbs.choose_cluster_id(client, options)
        options = msgspec.structs.replace(options, cluster_id=chosen)
    if whole and options.services_dns:
        async with frame.client() as client:
            coredns, wanted = await clustersetdns.look(client)
        options = msgspec.structs.replace(options, dns_account=coredns.account)
        more = clustersetdns.given(coredns, wanted)
    if whole and options.services_dns is False:
        async with frame.client() as client:
            more = await clustersetdns.taken_back(client)
    try:
        made = printable(options, crd_manifests()) if whole else added_in_cluster(options)
        made += more
    except ConfigError as error:
        raise Misuse(str(error)) from error
    if frame.output == "json":
        output.emit({"apiVersion": "v1", "kind": "List", "items": made}, frame.output)
    else:
        terminal.print_text(render(made), lines=True)
