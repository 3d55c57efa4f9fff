"""A kubeconfig for a daemon that runs outside the cluster: its ServiceAccount's own.

The token is that of a Secret of type ``kubernetes.io/service-account-token``: it lasts until the
Secret or the ServiceAccount is deleted (``liqod uninstall`` does both), because nobody would renew
a token of limited life in a file. Keep the file as what it is, the daemon's rights on this cluster.
"""

import base64
from typing import Any, Final

import yaml

from liqod.apimachinery.kinds import NODES, SECRETS, SERVICE_ACCOUNTS
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError, Invalid, NotFound
from liqod.install import noderights, rights
from liqod.install.manifests import MANAGED
from liqod.install.verbs import POLL
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.ensure import ensure
from liqod.model.objects.partial import TokenRequest
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

TOKEN_SECRET: Final = "liqod-token"
TOKEN_TYPE: Final = "kubernetes.io/service-account-token"
NODES_TOKEN: Final = 365 * 86400.0
"""Seconds for which a node's token is good if nothing else is said."""
FILLED_WITHIN: Final = 30.0
"""Seconds that the cluster's controller may take to put the token in."""


async def daemon_kubeconfig(
    client: Client, credentials: Credentials, namespace: str, cluster_id: str, progress: Progress
) -> bytes:
    """The kubeconfig (YAML) with which the daemon reaches this cluster as its ServiceAccount.

    Args:
        client: an administrator's.
        credentials: the same administrator's: address and authority are taken over.
        namespace: liqod's own.
        cluster_id: this cluster's id, for the names inside.
        progress: told what is waited for.

    Raises:
        ConfigError: the cluster does not fill in the token.
    """
    progress("waiting for the daemon's token")
    token = await _token(client, namespace)
    return render_kubeconfig(credentials, namespace, cluster_id, token).encode()


def token_secret(namespace: str) -> dict[str, Any]:
    """The Secret that the cluster's token controller fills."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": TOKEN_SECRET,
            "namespace": namespace,
            "labels": dict(MANAGED),
            "annotations": {"kubernetes.io/service-account.name": rights.SERVICE_ACCOUNT},
        },
        "type": TOKEN_TYPE,
    }


async def node_kubeconfig(
    client: Client,
    credentials: Credentials,
    namespace: str,
    cluster_id: str,
    node: str,
    lifetime: float,
) -> bytes:
    """The kubeconfig (YAML) of ``liqod node`` on a machine: its token names the Node, and dies with
    it.

    Args:
        client: an administrator's.
        credentials: the same administrator's: address and authority are taken over.
        namespace: liqod's own.
        cluster_id: this cluster's id, for the names inside.
        node: name of the Node.
        lifetime: seconds for which it is good; the API server may have its own idea.

    Raises:
        NotFound: there is no such Node, or liqod is not installed here.
        ConfigError: the API server knows no tokens of nodes.
    """
    found = await client.get(NODES, node, decode=Partial)
    bound = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": found.metadata.uid}
    asked = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"boundObjectRef": bound, "expirationSeconds": int(lifetime), "audiences": []},
    }
    where = (SERVICE_ACCOUNTS, noderights.ACCOUNT, namespace, "token")
    try:
        made = await client.create_subresource(*where, asked, decode=TokenRequest)
    except Invalid as error:
        raise ConfigError(
            f"the API server gives no token for a node: {error}. It does from Kubernetes 1.31 on"
        ) from error
    except NotFound as error:
        raise ConfigError("there is no ServiceAccount liqod-node: run `liqod install`") from error
    return render_kubeconfig(
        credentials, namespace, cluster_id, made.status.token, user=noderights.ACCOUNT
    ).encode()


def render_kubeconfig(
    credentials: Credentials,
    namespace: str,
    cluster_id: str,
    token: str,
    *,
    user: str = rights.SERVICE_ACCOUNT,
) -> str:
    """A kubeconfig with one cluster, one user and one context."""
    cluster: dict[str, Any] = {"server": credentials.server}
    if credentials.ca:
        cluster["certificate-authority-data"] = base64.b64encode(credentials.ca).decode()
    if credentials.server_name:
        cluster["tls-server-name"] = credentials.server_name
    if credentials.insecure:
        cluster["insecure-skip-tls-verify"] = True
    made = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster_id, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [
            {
                "name": cluster_id,
                "context": {"cluster": cluster_id, "user": user, "namespace": namespace},
            }
        ],
        "current-context": cluster_id,
    }
    return yaml.safe_dump(made, sort_keys=False)


async def _token(client: Client, namespace: str) -> str:
    wanted = token_secret(namespace)

    async def filled() -> str:
        live = await client.find(SECRETS, TOKEN_SECRET, namespace)
        if live is None:
            await ensure(client, SECRETS, wanted, live=None, namespace=namespace)
            return ""
        if live.get("type") != TOKEN_TYPE:
            raise ConfigError(f"the Secret {namespace}/{TOKEN_SECRET} is not a token's")
        return base64.b64decode(live.get("data", {}).get("token", "")).decode()

    return await poll_until(
        filled,
        longest_pause=POLL,
        within=FILLED_WITHIN,
        failing=lambda: ConfigError(
            f"the cluster does not fill the token into the Secret {namespace}/{TOKEN_SECRET}: "
            "does its controller manager run?"
        ),
    )
