"""``install`` and ``uninstall``: what goes into a cluster, and taking all of it out again."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from liqod.cli import common, terminal
from liqod.errors import ConfigError
from liqod.install import removal, rollout, verbs
from liqod.install.access import daemon_kubeconfig
from liqod.install.manifests import Manifest, Options, daemon_manifests, manifests, render
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.kube.kinds import NAMESPACES
from liqod.kube.meta import Partial
from liqod.model import labels
from liqod.resources.manifests import crd_manifests

DEFAULT = Options()
PHASES = {
    "Namespace": "namespace",
    "ConfigMap": "cluster's id and the configuration",
    "CustomResourceDefinition": "custom resources",
    "RuntimeClass": "runtime class",
    "ServiceAccount": "service account and its rights",
    "ClusterRole": "service account and its rights",
    "ClusterRoleBinding": "service account and its rights",
    "Role": "service account and its rights",
    "RoleBinding": "service account and its rights",
    "ValidatingAdmissionPolicy": "admission policies",
    "ValidatingAdmissionPolicyBinding": "admission policies",
    "Deployment": "daemon",
    "Service": "daemon",
}
"""What to call the manifests of a kind while they are applied."""


Advertise = Annotated[
    str,
    typer.Option(
        help="This API server's URL as peers reach it, in the cluster.",
        show_default="as in the kubeconfig",
    ),
]
Image = Annotated[str, typer.Option(help="Its container image, in the cluster.")]
InCluster = Annotated[
    bool, typer.Option("--in-cluster", help="The daemon is to run in the cluster.")
]
KubeconfigFile = Annotated[
    Path | None, typer.Option(help="Write a kubeconfig for a daemon outside the cluster.")
]


def install(
    cluster_id: Annotated[
        str, typer.Option(help="This cluster's id, for good: a DNS label.", show_default="as it is")
    ] = "",
    write_kubeconfig: KubeconfigFile = None,
    in_cluster: InCluster = False,
    image: Image = DEFAULT.image,
    replicas: Annotated[int, typer.Option(help="How many, in the cluster.", min=1)] = 1,
    advertise: Advertise = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every manifest and change nothing.")
    ] = False,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 120.0,
    output: common.Output = "text",
) -> None:
    """Put what the daemon needs into a cluster, or upgrade it.

    With --in-cluster -o yaml only the daemon's own manifests are printed (ConfigMap, Deployment
    and Service); with --dry-run -o yaml all of them.

    \b
    Examples:
      liqod install --cluster-id rome --write-kubeconfig daemon.kubeconfig
      liqod install --cluster-id rome --in-cluster --image registry.example/liqod:0.1.0
      liqod install --cluster-id rome --dry-run -o yaml
    """
    common.check_output(output, "text", "yaml", "json")
    options = Options(
        cluster_id=cluster_id,
        namespace=liqo_namespace,
        in_cluster=in_cluster,
        image=image,
        replicas=replicas,
        server=advertise,
    )
    common.check_place(write_kubeconfig)
    if dry_run or (in_cluster and output != "text"):
        _print(options, kubeconfig, context, timeout, output, whole=dry_run)
        return

    async def main(progress: common.Progress) -> str:
        found = await credentials.load(kubeconfig, context or None)
        async with Client(found, user_agent="liqod-cli") as client:
            wanted = await _addressed(client, options, found.ca) if in_cluster else options
            name = await verbs.install(client, wanted, _phases(progress))
            if in_cluster:
                await rollout.wait_rolled_out(client, liqo_namespace, progress)
            if write_kubeconfig is not None:
                data = await daemon_kubeconfig(client, found, liqo_namespace, name, progress)
                common.write_private(write_kubeconfig, data)
            return name

    name = common.run(main, timeout=timeout)
    terminal.say(f"liqod is installed in the cluster {name}")
    if write_kubeconfig is not None:
        terminal.say(f"next: LIQOD_KUBECONFIG={write_kubeconfig} liqod run")


async def _addressed(client: Client, options: Options, ca: bytes | None) -> Options:
    """The same with the address that peers are told.

    Raises:
        ConfigError: they cannot reach the administrator's, and no other was named.
    """
    told = await rollout.configured(client, options.namespace)
    if told is None:
        server = await rollout.advertised(client, options.server)
    else:
        server = told or options.server or client.server
    if told == "":
        common.warn(
            f"the ConfigMap {options.namespace}/liqod, which is yours, does not say [api_server] "
            "advertise: peers are told the address inside the cluster"
        )
    return msgspec.structs.replace(options, server=server, ca=(ca or b"").decode("ascii", "ignore"))


def _phases(progress: common.Progress) -> Callable[[str], None]:
    """The same progress by what is applied instead of object by object."""

    def told(step: str) -> None:
        word, _, rest = step.partition(" ")
        progress(f"apply the {PHASES[rest.partition(' ')[0]]}" if word == "applying" else step)

    return told


def _print(
    options: Options,
    kubeconfig: Path | None,
    context: str,
    timeout: float,
    output: str,
    *,
    whole: bool,
) -> None:
    """Print manifests; the cluster is asked for its id only where none is given."""

    async def resolve(progress: common.Progress) -> Options:
        if options.cluster_id or not whole:
            return options
        async with await common.connect(kubeconfig, context) as client:
            chosen = await verbs.choose_cluster_id(client, options)
        return msgspec.structs.replace(options, cluster_id=chosen)

    def make(chosen: Options) -> list[Manifest]:
        return manifests(chosen, crd_manifests()) if whole else daemon_manifests(chosen)

    try:
        made = make(common.run(resolve, timeout=timeout))
    except ConfigError as error:
        common.die(str(error), 2)
    if output == "json":
        common.emit({"apiVersion": "v1", "kind": "List", "items": made}, output)
    else:
        terminal.say(render(made), lines=True)


def uninstall(
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove the custom resource definitions too.")
    ] = False,
    yes: common.Yes = False,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 180.0,
) -> None:
    """Take everything of liqod's out of a cluster.

    Refused while it is peered. Stop the daemon first, unless it runs in the cluster. Custom
    resource definitions stay without --purge.

    \b
    Examples:
      liqod uninstall --purge
    """

    async def look(progress: common.Progress) -> list[str]:
        async with await common.connect(kubeconfig, context) as client:
            await removal.refuse_while_peered(client)
            mine = f"{labels.TENANT_NAMESPACE}={labels.TRUE}"
            found = await client.list(NAMESPACES, labels=mine, decode=Partial)
            return [liqo_namespace, *(each.metadata.name for each in found)]

    async def main(progress: common.Progress) -> None:
        async with await common.connect(kubeconfig, context) as client:
            await removal.uninstall(client, liqo_namespace, purge=purge, progress=progress)

    doomed = common.run(look, timeout=timeout)
    namespaces = f"namespace{'s' if len(doomed) > 1 else ''} {', '.join(doomed)}"
    crds = ", and the custom resource definitions with every object of theirs" if purge else ""
    common.confirm(
        f"removes the {namespaces}, and liqod's roles, policies and webhook{crds}",
        yes=yes,
    )
    common.run(main, timeout=timeout)
    terminal.say("nothing of liqod's is left" if purge else "liqod is uninstalled")
