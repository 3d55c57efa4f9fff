"""The id of one's own cluster: what the installation says, and what its peers know it as.

Apart from what else the daemon finds out of its cluster (:mod:`liqod.preflight`), which takes far
longer to import: every command asks for the id.
"""

from liqod.errors import ConfigError, Forbidden, NotFound
from liqod.kube.client import Client
from liqod.kube.kinds import CONFIG_MAPS, SECRETS
from liqod.kube.meta import Partial
from liqod.kube.selection import Selection
from liqod.model import ids, labels


class WrongClusterId(ConfigError):
    """The cluster's id is not the one by which its peers know it."""


async def cluster_id(client: Client, namespace: str) -> str:
    """This cluster's id, from the ConfigMap of the installation.

    Raises:
        NotFound: liqod is not installed here.
        ConfigError: there is more than one such ConfigMap, or its id is none.
    """
    selector = f"{labels.APP_NAME}={labels.CLUSTER_ID_NAME_LABEL}"
    maps = await client.list(CONFIG_MAPS, Selection(namespace, labels=selector))
    if not maps:
        raise NotFound(
            f"no cluster id in the namespace {namespace}: run `liqod install --cluster-id NAME`"
        )
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
        WrongClusterId: it was changed since.
        LiqodError: as :func:`cluster_id`.
    """
    said = await cluster_id(client, namespace)
    known = await known_as(client, namespace)
    problem = id_problem(said, known, namespace)
    if problem:
        raise WrongClusterId(problem)
    return said


def id_problem(said: str, known: str, namespace: str) -> str:
    """What is wrong with the id that the ConfigMap says; empty if peers know none, or this one."""
    if known in ("", said):
        return ""
    return (
        f"this cluster is {known} to its peers, and cannot become {said}: set {namespace}/"
        f"{labels.CLUSTER_ID_CONFIG_MAP} back with `liqod install --cluster-id {known}`; "
        "to start anew, uninstall first"
    )


async def known_as(client: Client, namespace: str) -> str:
    """The id under which this cluster's key was used first; empty where that cannot be told."""
    try:
        found = await client.find(SECRETS, labels.KEYS_SECRET, namespace, decode=Partial)
    except Forbidden:
        return ""
    return "" if found is None else found.metadata.annotations.get(labels.KNOWN_AS, "")
