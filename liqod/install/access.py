"""A kubeconfig for a daemon that runs outside the cluster: its ServiceAccount's own.

The token is that of a Secret of type ``kubernetes.io/service-account-token``: it lasts until the
Secret or the ServiceAccount is deleted (``liqod uninstall`` does both), because nobody would renew
a token of limited life in a file. Keep the file as what it is, the daemon's rights on this cluster.
"""

import base64
from typing import Any, Final

import yaml

from liqod.errors import ConfigError
from liqod.install import rights
from liqod.install.manifests import MANAGED
from liqod.install.verbs import POLL, Progress
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.ensure import ensure
from liqod.kube.kinds import SECRETS
from liqod.polling import poll_until

TOKEN_SECRET: Final = "liqod-token"
TOKEN_TYPE: Final = "kubernetes.io/service-account-token"
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


def render_kubeconfig(credentials: Credentials, namespace: str, cluster_id: str, token: str) -> str:
    """A kubeconfig with one cluster, one user and one context."""
    cluster: dict[str, Any] = {"server": credentials.server}
    if credentials.ca:
        cluster["certificate-authority-data"] = base64.b64encode(credentials.ca).decode()
    if credentials.server_name:
        cluster["tls-server-name"] = credentials.server_name
    if credentials.insecure:
        cluster["insecure-skip-tls-verify"] = True
    user = rights.SERVICE_ACCOUNT
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
