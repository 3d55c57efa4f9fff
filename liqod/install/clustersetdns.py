"""Gives the names of the set to the cluster's CoreDNS, and takes them back.

The order is the one that no name of the cluster suffers from: the kinds are served, CoreDNS may
read them, and only then its Corefile has the zone; the way back is the reverse. Each change of the
Corefile is followed by a rollout of CoreDNS, so that nothing is taken away that pods still use, and
one that does not come up is taken back. All of it is the administrator's: the daemon writes
nothing in ``kube-system``.
"""

import hashlib
from functools import partial
from typing import Any, Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    DEPLOYMENTS,
    NAMESPACES,
)
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError, Conflict, NotFound
from liqod.install import rights, rollout
from liqod.install.manifests import MANAGED, Manifest
from liqod.kube.client import Client
from liqod.kube.definitions import name_of
from liqod.model.clusterset import corefile, corefileedit
from liqod.model.clusterset.corefile import LEAST, OPTION, ZONE
from liqod.model.clusterset.corefiletext import CorefileUnclear
from liqod.procedures import clusterdns
from liqod.procedures.clusterdns import COREFILE, SYSTEM, CoreDns
from liqod.resources.multicluster import SERVICE_IMPORTS
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

PAGE: Final = "docs/how-to/service-names.md"
BY_HAND: Final = f"{PAGE} has the steps by hand"
READ: Final = SERVICE_IMPORTS["v1alpha1"]
"""The kind in the only version that CoreDNS reads."""
GIVEN_WITHIN: Final = 15.0
"""Seconds until the API server may know of new kinds and rights."""
ROLLED_WITHIN: Final = 90.0
"""Seconds that new pods of CoreDNS may take to be ready."""
MARK: Final = labels.CLUSTERSET_DNS
_KEEPERS: Final = {
    "addonmanager.kubernetes.io/mode": "the cluster's addon manager",
    "objectset.rio.cattle.io/": "K3s or RKE2",
    "eks.amazonaws.com/": "EKS",
    "kubernetes.azure.com/": "AKS",
    "argocd.argoproj.io/": "Argo CD",
    "kustomize.toolkit.fluxcd.io/": "Flux",
    "helm.toolkit.fluxcd.io/": "Flux",
    "k0s.k0sproject.io/": "k0s",
    "meta.helm.sh/": "Helm",
}
"""Programs that put back what others change, by a label or an annotation, or its beginning."""
_LEAVES_ALONE: Final = ("addonmanager.kubernetes.io/mode", "EnsureExists")


class DnsRefused(ConfigError):
    """The cluster's DNS server is not given the names of the set.

    Attributes:
        problem: a sentence.
        remedy: how to go on.
    """

    def __init__(self, problem: str, remedy: str = BY_HAND) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"{problem}: {remedy}")


def keeper_of(metadata: Manifest) -> str:
    """The program that keeps an object as it is, whatever others write; empty for none known."""
    marks = {**(metadata.get("labels") or {}), **(metadata.get("annotations") or {})}
    for mark, value in marks.items():
        for known, keeper in _KEEPERS.items():
            same = mark.startswith(known) if known.endswith("/") else mark == known
            if same and (mark, value) != _LEAVES_ALONE:
                return keeper
    manager = marks.get(labels.APP_MANAGED_BY)
    owners = [str(each.get("kind")) for each in metadata.get("ownerReferences") or ()]
    return str(manager) if manager else ", ".join(owners)


async def look(client: Client) -> tuple[CoreDns, corefileedit.Added]:
    """The CoreDNS that can be given the names, and its Corefile with them; nothing is changed.

    Raises:
        DnsRefused: there is none, somebody else keeps it, it is too old, or its Corefile is
            unclear.
    """
    found = await clusterdns.find(client)
    if found is None or found.deployment is None:
        openshift = await client.find(NAMESPACES, "openshift-dns", decode=Partial)
        if openshift is not None:
            problem = "OpenShift's DNS operator keeps its CoreDNS"
            raise DnsRefused(problem, f"forward {ZONE} to a CoreDNS of your own, as {PAGE} says")
        raise DnsRefused("there is no Deployment of CoreDNS with a Corefile in kube-system")
    for each in (found.configuration, found.deployment):
        keeper = keeper_of(each["metadata"])
        if keeper:
            problem = f"{keeper} keeps {found.place} and would put back what is changed"
            raise DnsRefused(problem, f"change it there: {BY_HAND}")
    if found.configuration.get("immutable"):
        raise DnsRefused(f"{found.place} is immutable")
    least = ".".join(map(str, LEAST))
    if not found.version:
        problem = "the version of CoreDNS is not known by the tag of its image"
        raise DnsRefused(problem, f"from {least} on, {BY_HAND}")
    if found.version < LEAST:
        version = ".".join(map(str, found.version))
        problem = f"CoreDNS {version} has no option `{OPTION}`, which {least} has"
        raise DnsRefused(problem, f"update it, or rewrite each name: {PAGE} has both")
    if not found.account:
        raise DnsRefused("CoreDNS has no ServiceAccount of its own")
    await _check_kinds(client)
    try:
        return found, corefileedit.added(found.corefile, found.imported)
    except CorefileUnclear as error:
        raise DnsRefused(f"the Corefile of {found.place} stays as it is: {error}") from error


async def _check_kinds(client: Client) -> None:
    """Make sure that kinds which are there already are those that CoreDNS reads.

    Raises:
        DnsRefused: another program has installed them in other versions.
    """
    live = await client.find(CUSTOM_RESOURCES, name_of(READ))
    if live is None:
        return
    served = {each["name"] for each in live["spec"]["versions"] if each.get("served")}
    if READ.version not in served:
        problem = f"{name_of(READ)} is not served as {READ.version}, which CoreDNS reads"
        raise DnsRefused(problem, f"have it served so by whoever installed it: {BY_HAND}")


async def is_given(client: Client) -> bool:
    """True if an installation has given CoreDNS the rights: an upgrade keeps them."""
    found = await client.find(CLUSTER_ROLES, rights.COREDNS_ROLE, decode=Partial)
    return found is not None and MANAGED.items() <= found.metadata.labels.items()


def given(found: CoreDns, wanted: corefileedit.Added) -> list[Manifest]:
    """The ConfigMap as :func:`give` would leave it; none where it serves the names already."""
    if wanted.put is None:
        return []
    return [_configuration(found, wanted.text, _marked(wanted.put))]


async def taken_back(client: Client) -> list[Manifest]:
    """The ConfigMap as :func:`take_back` would leave it; none where that leaves it alone.

    Raises:
        CorefileUnclear: its Corefile is not understood.
    """
    found = await clusterdns.find(client)
    put = _put(found) if found is not None else None
    if found is None or put is None:
        return []
    return [_configuration(found, corefileedit.removed(found.corefile, put), {})]


def _configuration(found: CoreDns, text: str, marked: Manifest) -> Manifest:
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.name,
        "metadata": {"name": found.name, "namespace": SYSTEM, **marked},
        "data": {COREFILE: text},
    }


async def give(client: Client, progress: Progress) -> None:
    """Have CoreDNS serve the names, once the kinds and its rights are there.

    Raises:
        DnsRefused: as :func:`look`.
        ConfigError: CoreDNS does not come up, after which its Corefile is as before; or the kinds
            or its rights are not there in time, and nothing was changed.
    """
    found, wanted = await look(client)
    put = wanted.put or _put(found)
    if put is None:
        progress(f"{found.place} serves {ZONE} by somebody's hand, and stays as it is")
        return
    progress("waiting until CoreDNS may read ServiceImports")
    await poll_until(
        partial(_readable, client, found.account),
        within=GIVEN_WITHIN,
        failing=lambda: ConfigError(
            f"CoreDNS ({SYSTEM}/{found.account}) may not list and watch {name_of(READ)}, or it is "
            "not served: its Corefile stays as it is; run it again"
        ),
    )
    if wanted.put is not None:
        progress(f"write {ZONE} into {found.place}")
        await _write(client, found, wanted.text, _marked(wanted.put))
    try:
        await roll_out(client, found, _sum(wanted.text), progress)
    except ConfigError as error:
        again = await clusterdns.find(client)
        if again is None or again.corefile != wanted.text:
            raise
        await _write(client, again, corefileedit.removed(wanted.text, put), _marked(None))
        await _annotate(client, found, None)
        raise ConfigError(f"{error}; its Corefile is as it was before") from error


async def _readable(client: Client, account: str) -> bool:
    """True once the kind is served and CoreDNS may read it."""
    try:
        await client.raw("GET", READ.path(), query={"limit": "1"})
    except NotFound:
        return False
    return bool(await clusterdns.lists_imports(client, account))


async def take_back(client: Client, progress: Progress, *, purge: bool = False) -> None:
    """Take the names out of the Corefile that :func:`give` has written, until no pod uses them.

    Args:
        client: an administrator's.
        progress: told of each step.
        purge: the definitions of the kinds go next, where they are an installation's.

    Raises:
        ConfigError: its Corefile still has them by somebody's hand, and would lack the rights or
            the kinds; or it is not understood, or CoreDNS does not come up.
    """
    found = await clusterdns.find(client)
    if found is None:
        return
    put, text = _put(found), found.corefile
    if put is not None:
        try:
            text = corefileedit.removed(text, put)
        except CorefileUnclear as error:
            raise ConfigError(f"{_by_hand(found)} ({error})") from error
        progress(f"taking {ZONE} out of {found.place}")
        await _write(client, found, text, _marked(None))
    left = corefile.read(text).directive == OPTION
    if left and (await is_given(client) or (purge and await _are_ours(client))):
        raise ConfigError(_by_hand(found))
    if found.deployment is not None and MARK in _template(found.deployment):
        await roll_out(client, found, None, progress)


def _put(found: CoreDns) -> corefileedit.Put | None:
    """The way in which an installation has written the Corefile; None where it has not."""
    annotations = found.configuration["metadata"].get("annotations") or {}
    return next((each for each in corefileedit.PUTS if annotations.get(MARK) == each), None)


async def _are_ours(client: Client) -> bool:
    """True if the definition of ServiceImports is an installation's."""
    live = await client.find(CUSTOM_RESOURCES, name_of(READ), decode=Partial)
    return live is not None and labels.MANAGED_BY_LIQOD in live.metadata.labels


def _by_hand(found: CoreDns) -> str:
    return (
        f"{found.place} has `{OPTION} {ZONE}` in another way than liqod wrote it, and CoreDNS "
        f"would lose what it reads: take it out as {PAGE} says, and run it again"
    )


def _marked(put: corefileedit.Put | None) -> Manifest:
    """Metadata with the mark of a Corefile's change; without it for None."""
    return {"annotations": {MARK: put}}


async def _write(client: Client, found: CoreDns, text: str, marked: Manifest) -> None:
    """Write the Corefile, unless somebody has changed it since it was read.

    Raises:
        ConfigError: somebody has.
    """
    version = found.configuration["metadata"]["resourceVersion"]
    patch = {"metadata": {**marked, "resourceVersion": version}, "data": {COREFILE: text}}
    try:
        await client.patch(CONFIG_MAPS, found.name, patch, SYSTEM)
    except (Conflict, NotFound) as error:
        raise ConfigError(f"{found.place} has changed meanwhile: run it again") from error


async def roll_out(client: Client, found: CoreDns, mark: str | None, progress: Progress) -> None:
    """Have all pods of CoreDNS read the Corefile, and wait until they are ready.

    Raises:
        ConfigError: they are not in time.
    """
    name = await _annotate(client, found, mark)
    progress("waiting for CoreDNS to come up with its Corefile")

    async def ready() -> bool:
        return rollout.is_rolled_out(await client.get(DEPLOYMENTS, name, SYSTEM))

    await poll_until(
        ready,
        longest_pause=rollout.POLL,
        within=ROLLED_WITHIN,
        failing=lambda: ConfigError(
            f"CoreDNS does not come up (`kubectl -n {SYSTEM} logs deployment/{name}` says why)"
        ),
    )


async def _annotate(client: Client, found: CoreDns, mark: str | None) -> str:
    """Mark the pods' template, by which others are made; the name of the Deployment."""
    name = str((found.deployment or {})["metadata"]["name"])
    patch = {"spec": {"template": {"metadata": {"annotations": {MARK: mark}}}}}
    await client.patch(DEPLOYMENTS, name, patch, SYSTEM)
    return name


def _template(deployment: Manifest) -> dict[str, Any]:
    return deployment["spec"]["template"].get("metadata", {}).get("annotations") or {}


def _sum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
