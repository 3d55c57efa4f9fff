"""The id of this cluster: read from the installation, and compared with the one that peers know.

Apart from the other facts about this cluster (:mod:`liqod.cluster.preflight`), whose module
takes far longer to import: every command asks for the id.
"""

from collections.abc import Mapping

import msgspec

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError, Forbidden, NotFound
from liqod.kube.client import Client
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.model.ids import IdProblem


class PublicData(msgspec.Struct, frozen=True):
    """The part of this cluster's keys that is no secret.

    Attributes:
        public: the public key, PEM.
        succession: by which key another one was followed.
    """

    public: bytes = msgspec.field(name=labels.PUBLIC_KEY_FIELD, default=b"")
    succession: bytes = msgspec.field(name=labels.SUCCESSION_FIELD, default=b"")


class PublicKeys(Partial, frozen=True):
    """The Secret with this cluster's keys, of which nothing secret is read."""

    data: PublicData = PublicData()


class WrongClusterId(ConfigError):
    """The cluster's id is not the one by which its peers know it."""


class NotInstalled(NotFound):
    """The namespace holds no id of this cluster: liqod is not installed here.

    Attributes:
        problem: that, without what to do about it.
    """

    def __init__(self, namespace: str) -> None:
        self.problem = f"no cluster id in the namespace {namespace}"
        super().__init__(
            f"{self.problem}: run `liqod install --cluster-id NAME`, or name the namespace in which"
            " liqod is with --liqo-namespace"
        )


async def cluster_id(client: Client, namespace: str) -> str:
    """This cluster's id, from the ConfigMap of the installation.

    Raises:
        NotInstalled: liqod is not installed here.
        ConfigError: there is more than one such ConfigMap, or its id is none.
    """
    selector = f"{labels.APP_NAME}={labels.CLUSTER_ID_NAME_LABEL}"
    maps = await client.list(CONFIG_MAPS, Selection(namespace, labels=selector))
    if not maps:
        raise NotInstalled(namespace)
    if len(maps) > 1:
        raise ConfigError(f"{len(maps)} ConfigMaps in {namespace} claim to hold the cluster's id")
    value = maps[0].get("data", {}).get(labels.CLUSTER_ID_FIELD, "")
    problem = ids.cluster_id_problem(value)
    if problem is not None:
        raise ConfigError(f"the cluster's id {value!r} cannot be used: {problem}")
    return str(value)


async def own_cluster_id(client: Client, namespace: str) -> str:
    """The same of one's own cluster, compared with the id that its peers know.

    Raises:
        WrongClusterId: it was changed since, or the cluster's key is that of another cluster.
        LiqodError: as :func:`cluster_id`.
    """
    said = await cluster_id(client, namespace)
    noted = await notes(client, namespace)
    problem = id_problem(said, noted.get(labels.KNOWN_AS, ""), namespace)
    problem = problem or await copy_problem(client, said, noted)
    if problem:
        raise WrongClusterId(str(problem))
    return said


def id_problem(said: str, known: str, namespace: str) -> IdProblem | None:
    """The fault of the id that the ConfigMap says; None if peers know none, or this one."""
    if known in ("", said):
        return None
    return IdProblem(
        f"this cluster is {known} to its peers, and cannot become {said}",
        f"set {namespace}/{labels.CLUSTER_ID_CONFIG_MAP} back with `liqod install --cluster-id"
        f" {known}`, or where Helm has installed liqod with `helm upgrade` and clusterID={known};"
        " to start anew, uninstall first",
    )


async def copy_problem(client: Client, said: str, noted: Mapping[str, str]) -> IdProblem | None:
    """The fault of a cluster that may not work with the key that it has; None where it may.

    A copy of a cluster's objects, its key with them, would be taken for that cluster by every peer,
    and each of the two would end there what the other has.

    Args:
        client: of this cluster.
        said: its id.
        noted: what is noted of its key (:func:`notes`).
    """
    known, here = noted.get(labels.KNOWN_IN, ""), await cluster_uid(client)
    if "" in (known, here) or known == here:
        return None
    return IdProblem(
        f"the key of {said} comes from another cluster (kube-system was {known}, and is {here}), as"
        " after a restore or in a copy",
        f"if that cluster is gone, `liqod install --restored` makes this one {said}; if it still"
        " runs, let no daemon run here",
    )


async def cluster_uid(client: Client) -> str:
    """The UID of this cluster's namespace kube-system, which none other has; empty where that
    cannot be read."""
    try:
        found = await client.find(NAMESPACES, "kube-system", decode=Partial)
    except Forbidden:
        return ""
    return "" if found is None else found.metadata.uid


async def take_over(client: Client, namespace: str) -> None:
    """Make the key this cluster's, regardless of the cluster from which it comes.

    Raises:
        LiqodError: there is none, or the API server refuses.
    """
    note = {"metadata": {"annotations": {labels.KNOWN_IN: await cluster_uid(client)}}}
    await client.patch(SECRETS, labels.KEYS_SECRET, note, namespace)


async def notes(client: Client, namespace: str) -> Mapping[str, str]:
    """The annotations of this cluster's key; empty where they cannot be read."""
    try:
        found = await client.find(SECRETS, labels.KEYS_SECRET, namespace, decode=Partial)
    except Forbidden:
        return {}
    return {} if found is None else found.metadata.annotations


async def original_id(client: Client, namespace: str) -> str:
    """The id under which this cluster's key was used first; empty where that cannot be read."""
    return (await notes(client, namespace)).get(labels.KNOWN_AS, "")
