"""The reasons to refuse an installation, found before anything is applied.

Decisions are functions of values; :func:`check` asks the API server for these. All reasons are
told at once, each with what to do.
"""

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError, Forbidden
from liqod.install import clusterproperties, clustersetdns, installerrights, machines, rights
from liqod.install.installerrights import InstallerRight
from liqod.install.manifests import HELM, OF_LIQO, OF_LIQOD, SELECTOR, Manifest, Options
from liqod.kube import times
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model.objects.webhook import SYSTEM
from liqod.model.view.figures import span

OLDEST: Final = (1, 30)
"""The oldest Kubernetes that is supported: the first with admission policies that are stable."""
APART: Final = 60.0
"""Seconds by which clocks may differ: a certificate begins that long before it is signed
(:data:`liqod.identity.certificates.SKEW`), and Leases bear more."""
RELEASE: Final = "meta.helm.sh/release-name"
"""Annotation by which Helm knows what it has made."""
RESERVED: Final = ("default", *SYSTEM)
"""Namespaces that no uninstallation could delete."""

Reason = Literal[
    "version",
    "rights",
    "architecture",
    "liqo",
    "helm",
    "installed",
    "namespace",
    "clock",
    "dns",
    "property",
]


class InstallRefusal(msgspec.Struct, frozen=True):
    """One reason to refuse an installation.

    Attributes:
        reason: its name.
        problem: a sentence.
        remedy: how to go on.
    """

    reason: Reason
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}"


class InstallRefused(ConfigError):
    """The cluster cannot take liqod as it is; nothing was changed.

    Attributes:
        refusals: all reasons.
    """

    def __init__(self, refusals: Iterable[InstallRefusal]) -> None:
        self.refusals = tuple(refusals)
        super().__init__("\n".join(map(str, self.refusals)))


class _GitVersion(msgspec.Struct, frozen=True):
    git: str = msgspec.field(name="gitVersion", default="")


async def check(client: Client, options: Options, wanted: list[Manifest]) -> None:
    """Make sure that an installation can be done.

    Args:
        client: the installer's.
        options: the operator's.
        wanted: the manifests of :func:`liqod.install.manifests.manifests`; the definitions may be
            left out.

    Raises:
        InstallRefused: it cannot; all reasons are named.
    """
    version, ahead = await _server(client)
    lacking = await installerrights.missing(client, wanted, options)
    found = [of_version(version), of_rights(lacking)]
    if not options.in_cluster and options.clock:  # there it has the clocks of its nodes
        found.append(of_clock(ahead))
    found.append(await _of_machines(client, options) if options.in_cluster else None)
    if not lacking:
        places = [options.namespace, options.nodes_namespace]
        found.append(await _of_place(client, *filter(None, places)))
        found.append(await _of_dns(client) if options.services_dns else None)
        found.append(await _of_properties(client, options) if options.clusterset else None)
    refusals = [each for each in found if each is not None]
    if refusals:
        raise InstallRefused(refusals)


async def _server(client: Client) -> tuple[str, float]:
    """The API server's version, and the seconds by which its clock is ahead of ours."""
    try:
        answer = await client.raw("GET", "/version")
    except Forbidden:
        return "", 0.0
    date = times.date_of(answer.headers.get("date", ""))
    try:
        version = msgspec.json.decode(answer.body, type=_GitVersion).git
    except msgspec.DecodeError:
        version = ""
    return version, 0.0 if date is None else date - time.time()


def of_version(git: str) -> InstallRefusal | None:
    """The refusal of an API server that is too old, by its ``gitVersion``; None where it will do.

    A version that cannot be read is no reason.
    """
    found = re.match(r"v?(\d+)\.(\d+)", git)
    if found is None or (int(found[1]), int(found[2])) >= OLDEST:
        return None
    oldest = ".".join(map(str, OLDEST))
    return InstallRefusal(
        "version",
        f"the API server is of Kubernetes {git}, and liqod needs {oldest} or newer",
        "upgrade the cluster",
    )


def of_rights(lacking: Iterable[InstallerRight]) -> InstallRefusal | None:
    """The refusal of a user without these rights; None where there are none of them."""
    named = installerrights.described(lacking)
    if not named:
        return None
    return InstallRefusal(
        "rights",
        f"the user of the kubeconfig may not {named}",
        "use a kubeconfig whose user has these rights",
    )


def of_clock(ahead: float) -> InstallRefusal | None:
    """The refusal of clocks that differ too much; None where certificates bear it.

    Args:
        ahead: seconds by which the API server's is ahead of this machine's.
    """
    if abs(ahead) <= APART:
        return None
    side = "ahead" if ahead > 0 else "behind"
    return InstallRefusal(
        "clock",
        f"the API server's clock is {span(abs(ahead))} {side}, and certificates would not be valid",
        "set both clocks by NTP, or say --any-clock where the daemon runs on another machine",
    )


async def _of_place(client: Client, namespace: str, *others: str) -> InstallRefusal | None:
    """The refusal of a cluster in which liqod, or something else, has these places."""
    found = (
        await _beside_liqo(client)
        or await by_helm(client)
        or await _beside_another(client, namespace)
    )
    for each in (namespace, *others):
        found = found or await _in_namespace(client, each)
    return found


async def _of_dns(client: Client) -> InstallRefusal | None:
    """The refusal of a DNS server that is not given the names of the set."""
    try:
        await clustersetdns.look(client)
    except clustersetdns.DnsRefused as error:
        return InstallRefusal("dns", error.problem, error.remedy)
    return None


async def _of_properties(client: Client, options: Options) -> InstallRefusal | None:
    """The refusal where properties of the cluster are another program's."""
    problem = await clusterproperties.problem(client, options)
    remedy = "leave that to it, and --clusterset out, or end it there first"
    return InstallRefusal("property", problem, remedy) if problem else None


async def _of_machines(client: Client, options: Options) -> InstallRefusal | None:
    """The refusal where the daemon's image is for none of the nodes."""
    found = machines.problem(await machines.look(client) or (), options)
    return InstallRefusal("architecture", *found) if found else None


async def _beside_liqo(client: Client) -> InstallRefusal | None:
    """The refusal where a controller of Liqo's runs."""
    found = await client.list(DEPLOYMENTS, Selection(labels=OF_LIQO), decode=Partial)
    if not found:
        return None
    metadata = found[0].metadata
    return InstallRefusal(
        "liqo",
        f"Liqo itself runs here (Deployment {metadata.namespace}/{metadata.name}), and both "
        "would reconcile the same objects",
        "`liqod migrate --dry-run` shows how liqod takes over",
    )


async def by_helm(client: Client) -> InstallRefusal | None:
    """The refusal where the chart has installed liqod: Helm would put back what others change."""
    selector = f"{OF_LIQOD},{labels.APP_MANAGED_BY}={HELM}"
    accounts = await client.list(SERVICE_ACCOUNTS, Selection(labels=selector), decode=Partial)
    for each in accounts:
        if each.metadata.name != rights.SERVICE_ACCOUNT:
            continue  # that of nodes is in another namespace than the release
        release = each.metadata.annotations.get(RELEASE, "liqod")
        place = each.metadata.namespace
        return InstallRefusal(
            "helm",
            f"Helm has installed liqod here (release {release} in the namespace {place})",
            f"use `helm upgrade {release}`, or `helm uninstall {release}` first, each with "
            f"`--namespace {place}`",
        )
    return None


async def _beside_another(client: Client, namespace: str) -> InstallRefusal | None:
    """The refusal where an installation has another namespace."""
    accounts = await client.list(SERVICE_ACCOUNTS, Selection(labels=SELECTOR), decode=Partial)
    for each in accounts:
        place = each.metadata.namespace
        if each.metadata.name == rights.SERVICE_ACCOUNT and place != namespace:
            return InstallRefusal(
                "installed",
                f"liqod is installed in the namespace {place}, and a cluster has one",
                f"upgrade it by `liqod install --liqo-namespace {place}`, or uninstall it first",
            )
    return None


async def _in_namespace(client: Client, name: str) -> InstallRefusal | None:
    """The refusal of a namespace that is not for liqod."""
    elsewhere = "name another one with --liqo-namespace"
    if name in RESERVED:
        return InstallRefusal("namespace", f"the namespace {name} is Kubernetes' own", elsewhere)
    found = await client.find(NAMESPACES, name, decode=Partial)
    if found is None:
        return None
    if found.metadata.deletion_timestamp:
        problem = f"the namespace {name} is being deleted"
        return InstallRefusal("namespace", problem, "try again when it has gone")
    if _is_liqods(found.metadata.labels) or await _has_identity(client, name):
        return None
    for kind in (DEPLOYMENTS, DAEMON_SETS, PODS):
        for each in await client.list(kind, Selection(name), decode=Partial):
            if not _is_liqods(each.metadata.labels):
                problem = (
                    f"the namespace {name} has something else in it ({kind.name} "
                    f"{each.metadata.name}), which would be deleted with liqod"
                )
                return InstallRefusal("namespace", problem, elsewhere)
    return None


def _is_liqods(found: Mapping[str, Any]) -> bool:
    return found.get(labels.MANAGED_BY_LIQOD) == labels.TRUE


async def _has_identity(client: Client, namespace: str) -> bool:
    """True if the cluster's id or key is there, as Liqo leaves them."""
    selector = f"{labels.APP_NAME}={labels.CLUSTER_ID_NAME_LABEL}"
    if await client.list(CONFIG_MAPS, Selection(namespace, labels=selector), decode=Partial):
        return True
    keys = await client.find(SECRETS, labels.KEYS_SECRET, namespace, decode=Partial)
    return keys is not None
