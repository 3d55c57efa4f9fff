"""``install`` and ``uninstall``: what goes into a cluster, and taking all of it out again."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from liqod.cli import common
from liqod.errors import ConfigError
from liqod.install import removal, verbs
from liqod.install.access import daemon_kubeconfig
from liqod.install.manifests import Manifest, Options, daemon_manifests, manifests, render
from liqod.kube import credentials
from liqod.kube.client import Client
from liqod.model import labels
from liqod.resources.manifests import crd_manifests

DEFAULT = Options()


def install(
    cluster_id: Annotated[
        str, typer.Option(help="This cluster's id, for good: a DNS label.", show_default="as it is")
    ] = "",
    write_kubeconfig: Annotated[
        Path | None, typer.Option(help="Write a kubeconfig for a daemon outside the cluster.")
    ] = None,
    in_cluster: Annotated[
        bool, typer.Option("--in-cluster", help="The daemon is to run in the cluster.")
    ] = False,
    image: Annotated[str, typer.Option(help="Its container image, in the cluster.")] = (
        DEFAULT.image
    ),
    replicas: Annotated[int, typer.Option(help="How many, in the cluster.", min=1)] = 1,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print every manifest and change nothing.")
    ] = False,
    liqo_namespace: common.LiqoNamespace = labels.LIQO_NAMESPACE,
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 120.0,
    output: common.Output = "text",
) -> None:
    """Put into a cluster what the daemon needs, or bring it up to date; run again it upgrades.

    With --in-cluster -o yaml only the daemon's own manifests are printed (ConfigMap, Deployment
    and Service); with --dry-run -o yaml all of them.
    """
    common.check_output(output, "text", "yaml", "json")
    options = Options(
        cluster_id=cluster_id,
        namespace=liqo_namespace,
        in_cluster=in_cluster,
        image=image,
        replicas=replicas,
    )
    if dry_run or (in_cluster and output != "text"):
        _print(options, kubeconfig, context, timeout, output, whole=dry_run)
        return

    async def main(progress: common.Progress) -> str:
        found = await credentials.load(kubeconfig, context or None)
        async with Client(found, user_agent="liqod-cli") as client:
            name = await verbs.install(client, options, common.grouped(progress, "applying"))
            if write_kubeconfig is not None:
                data = await daemon_kubeconfig(client, found, liqo_namespace, name, progress)
                _write_secret(write_kubeconfig, data)
            return name

    name = common.run(main, timeout=timeout)
    sys.stdout.write(f"liqod is installed in the cluster {name}\n")
    if write_kubeconfig is not None:
        sys.stdout.write(f"next: LIQOD_KUBECONFIG={write_kubeconfig} liqod run\n")


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
        return Options(
            cluster_id=chosen,
            namespace=options.namespace,
            in_cluster=options.in_cluster,
            image=options.image,
            replicas=options.replicas,
        )

    def make(chosen: Options) -> list[Manifest]:
        return manifests(chosen, crd_manifests()) if whole else daemon_manifests(chosen)

    try:
        made = make(common.run(resolve, timeout=timeout))
    except ConfigError as error:
        common.die(str(error), 2)
    if output == "json":
        common.emit({"apiVersion": "v1", "kind": "List", "items": made}, output)
    else:
        sys.stdout.write(render(made))


def _write_secret(path: Path, data: bytes) -> None:
    """Write a file that only its owner reads, whole or not at all.

    Raises:
        ConfigError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        draft.replace(path)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error}") from error


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
    """Take everything of liqod's out of a cluster; refused while it is peered."""

    async def look(progress: common.Progress) -> None:
        async with await common.connect(kubeconfig, context) as client:
            await removal.refuse_while_peered(client)

    async def main(progress: common.Progress) -> None:
        async with await common.connect(kubeconfig, context) as client:
            await removal.uninstall(client, liqo_namespace, purge=purge, progress=progress)

    common.run(look, timeout=timeout)
    crds = ", and the custom resource definitions with every object of theirs" if purge else ""
    common.confirm(
        f"removes the namespace {liqo_namespace}, the tenant namespaces, liqod's roles, policies "
        f"and webhook{crds}",
        yes=yes,
    )
    common.run(main, timeout=timeout)
    sys.stdout.write("nothing of liqod's is left\n" if purge else "liqod is uninstalled\n")
