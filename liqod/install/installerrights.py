"""The rights that an installation needs of its user, and those of them that are missing.

They follow from the manifests that it applies. The API server is asked once where the
user may do everything, as administrators may, and otherwise for each right.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from liqod.apimachinery.kinds import (
    ACCESS_REVIEWS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCES,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    OWN_ACCESS_REVIEWS,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    STORAGE_CLASSES,
    Kind,
)
from liqod.install import clustersetdns, dnsserver, rights
from liqod.install.manifests import KINDS, PRUNED, Manifest, Options
from liqod.kube.client import Client
from liqod.model import ids
from liqod.procedures import clusterdns
from liqod.resources import DEFINITIONS, exchanges
from liqod.runtime.gather import gather

ALL: Final = "*"
APPLIED: Final = ("get", "create", "patch")
"""Verbs on what is applied."""
REMOVED: Final = ("list", "delete")
"""Verbs on what an older installation may have left."""


class InstallerRight(msgspec.Struct, frozen=True, order=True):
    """One verb on the objects of one kind.

    Attributes:
        verb: such as ``create``.
        group: API group.
        resource: the plural, such as ``pods``.
        namespace: where; empty for everywhere.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""

    @property
    def qualified(self) -> str:
        """The resource with its group, as kubectl writes it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource


RIGHT_TO_ALL: Final = InstallerRight(ALL, ALL, ALL)


def needed(wanted: Sequence[Manifest], options: Options) -> set[InstallerRight]:
    """The rights to look at a cluster, to apply these manifests and to take away older ones.

    To write roles takes ``escalate`` and ``bind``, whatever else the user has: one is aggregated,
    and may hold anything later.

    Args:
        wanted: the manifests.
        options: by which they were made.
    """
    namespace = options.namespace
    found = {
        _right(verb, KINDS[one["kind"]], one["metadata"].get("namespace", ""))
        for one in wanted
        for verb in APPLIED
    }
    found |= {_right(verb, CUSTOM_RESOURCES) for verb in APPLIED}
    apart = ids.nodes_namespace(namespace)
    for kind, namespaced in PRUNED:
        for where in (namespace, apart, rights.NODE_LEASES) if namespaced else ("",):
            found |= {_right(verb, kind, where) for verb in REMOVED}
    found |= {_right("list", each.resource.KIND) for each in DEFINITIONS}
    found |= {_right("list", kind) for kind in (DEPLOYMENTS, SERVICE_ACCOUNTS)}
    found |= {_right("get", kind) for kind in (NAMESPACES, STORAGE_CLASSES)}
    for where in (namespace, options.nodes_namespace) if options.nodes_namespace else (namespace,):
        found |= {_right("list", kind, where) for kind in (CONFIG_MAPS, DAEMON_SETS, PODS)}
        found |= {_right("get", kind, where) for kind in (SECRETS, DEPLOYMENTS)}
    found |= {_right("get", DAEMON_SETS, where) for where in (namespace, apart)}
    if options.in_cluster:
        found |= {_right(verb, CONFIG_MAPS, namespace) for verb in ("get", "delete")}
        if not options.nodes_namespace:
            found.add(_right("delete", NAMESPACES))
    found |= _giving(wanted)
    if options.services:
        found.add(_right("list", exchanges.SERVICE_EXCHANGES))
    if options.services_dns is not None:
        for kind in (CONFIG_MAPS, DEPLOYMENTS):
            found |= {_right(verb, kind, clusterdns.SYSTEM) for verb in ("get", "list", "patch")}
        found |= {_right("create", ACCESS_REVIEWS), _right("list", clustersetdns.READ)}
    if options.dns_server is False:
        for kind in dnsserver.KINDS:
            found |= {_right(verb, kind, namespace) for verb in ("get", "delete")}
    if options.kubeconfig:
        found.add(_right("create", SECRETS, namespace))
    return found


def _giving(wanted: Iterable[Manifest]) -> set[InstallerRight]:
    """The rights to give others, by these manifests, what their user may lack."""
    found = set()
    for one in wanted:
        kind, where = KINDS[one["kind"]], one["metadata"].get("namespace", "")
        if kind in (CLUSTER_ROLES, ROLES):
            found.add(_right("escalate", kind, where))
        elif kind in (CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            role = KINDS[one["roleRef"]["kind"]]
            found.add(InstallerRight("bind", role.group, role.plural, where))
    return found


def _right(verb: str, kind: Kind, namespace: str = "") -> InstallerRight:
    return InstallerRight(verb, kind.group, kind.plural, namespace if kind.namespaced else "")


async def missing(
    client: Client, wanted: Sequence[Manifest], options: Options
) -> tuple[InstallerRight, ...]:
    """The rights that the client's user lacks for an installation; none where all are there.

    Args:
        client: the installer's.
        wanted: the manifests that would be applied.
        options: by which they were made.
    """
    if await _has(client, RIGHT_TO_ALL):
        return ()
    asked = sorted(needed(wanted, options))
    answers = await gather(*(partial(_has, client, right) for right in asked))
    return tuple(right for right, has in zip(asked, answers, strict=True) if not has)


async def _has(client: Client, right: InstallerRight) -> bool:
    answer = await client.create_full(
        OWN_ACCESS_REVIEWS, {"spec": {"resourceAttributes": msgspec.to_builtins(right)}}
    )
    return bool(answer.get("status", {}).get("allowed"))


def described(lacking: Iterable[InstallerRight]) -> str:
    """Rights as text, such as ``create, patch secrets in liqo; list *.ipam.liqo.io``."""
    verbs: dict[tuple[str, str], list[str]] = {}
    for each in lacking:
        verbs.setdefault((each.namespace, each.qualified), []).append(each.verb)
    resources: dict[tuple[str, str], list[str]] = {}
    for (namespace, qualified), found in sorted(verbs.items()):
        resources.setdefault((", ".join(sorted(found)), namespace), []).append(qualified)
    return "; ".join(
        f"{verb} {', '.join(_by_group(found))}" + (f" in {namespace}" if namespace else "")
        for (verb, namespace), found in resources.items()
    )


def _by_group(resources: Sequence[str]) -> list[str]:
    """Qualified resources, with one name for a group of custom resources that is there whole."""
    found = list(resources)
    for group, own in _groups().items():
        if own <= set(found):
            found = [*(each for each in found if each not in own), f"*.{group}"]
    return found


def _groups() -> dict[str, set[str]]:
    """The qualified custom resources of each group."""
    groups: dict[str, set[str]] = {}
    for each in DEFINITIONS:
        right = _right("", each.resource.KIND)
        groups.setdefault(right.group, set()).add(right.qualified)
    return groups
