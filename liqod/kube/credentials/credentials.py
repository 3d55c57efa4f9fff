"""Credentials for an API server: kubeconfigs and service accounts, read into one frozen value.

The format is that of ``clientcmd/v1.Config``. An operator's file may name other files and programs;
a kubeconfig out of a Secret may not, since any writer of the Secret could then read the daemon's
files and run programs as the daemon. Errors name the field and never show a value.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import trio

from liqod.errors import ConfigError
from liqod.kube.credentials import kubeconfig
from liqod.kube.http import proxies

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod's token, CA and namespace, written by the kubelet."""


class ExecPlugin(msgspec.Struct, frozen=True):
    """A program (or legacy auth provider) that issues the credentials.

    Attributes:
        name: its name in messages.
        document: a kubeconfig, as JSON, with only the cluster, user and context concerned.
        directory: base of its relative paths.
    """

    name: str
    document: str
    directory: str

    def __repr__(self) -> str:
        """Without the document: it may hold secrets."""
        return f"ExecPlugin({self.name})"


class Origin(msgspec.Struct, frozen=True):
    """The source of credentials, so that they can be read again when a file changes.

    Attributes:
        paths: kubeconfig files, merged in this order; none means the service account of the pod.
        context: the requested context, None for each file's current one.
        files: every file that was read.
    """

    paths: tuple[str, ...]
    context: str | None
    files: tuple[str, ...]


class Credentials(msgspec.Struct, frozen=True):
    """One identity at one API server.

    Attributes:
        server: URL of the API server, without a slash at its end.
        ca: PEM of the authorities trusted for it; None means those of the system.
        client_cert: PEM of the client certificate and its chain.
        client_key: PEM of its key.
        token: bearer token.
        token_file: file that holds the bearer token and is read again when it changes.
        namespace: default namespace of the context.
        insecure: do not check the server's certificate.
        server_name: name to expect in the server's certificate instead of the URL's.
        proxy: URL of an HTTP proxy to the server, which may hold a user and a password.
        exec: plugin that issues certificate or token.
        origin: the files read, None if it did not come from files.
    """

    server: str
    ca: bytes | None = None
    client_cert: bytes | None = None
    client_key: bytes | None = None
    token: str | None = None
    token_file: str | None = None
    namespace: str = "default"
    insecure: bool = False
    server_name: str | None = None
    proxy: str | None = None
    exec: ExecPlugin | None = None
    origin: Origin | None = None

    @property
    def authorization(self) -> str:
        """The header with the token. Raises ConfigError for a token that no header can hold."""
        token = self.token or ""
        if not token.isascii() or not token.isprintable():
            raise ConfigError("the bearer token holds characters that no token has")
        return f"Authorization: Bearer {token}"

    def __repr__(self) -> str:
        """Leave out secrets, as it may get into a log."""
        return f"Credentials({self.server})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """Leave out secrets in tracebacks made by rich."""
        return [("server", self.server)]


def from_kubeconfig(
    data: bytes | str, context: str | None = None, base: Path | None = None
) -> Credentials:
    """The credentials of one context of a kubeconfig.

    Args:
        data: YAML or JSON.
        context: name of the context; None for the ``current-context``.
        base: folder of the file; None for a kubeconfig that is not the operator's own file, which
            may then name neither files nor programs.

    Raises:
        ConfigError: with the fault and its place, without secrets.
    """
    return _select(kubeconfig.parse(data, base), context)


def from_files(paths: tuple[Path, ...], context: str | None = None) -> Credentials:
    """The credentials of a context in kubeconfig files, merged as ``kubectl`` merges them.

    Raises ConfigError, also for files that cannot be read.
    """
    files = [str(path) for path in paths]
    parsed = []
    for path in paths:
        data = kubeconfig.read_file(path, "the kubeconfig")
        try:
            parsed.append(kubeconfig.parse(data, path.parent.absolute()))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
    try:
        found = _select(kubeconfig.merge(parsed), context, files)
    except ConfigError as error:
        raise ConfigError(f"{os.pathsep.join(map(str, paths))}: {error}") from error
    origin = Origin(tuple(str(path) for path in paths), context, tuple(dict.fromkeys(files)))
    return msgspec.structs.replace(found, origin=origin)


def from_other_side(path: Path, context: str | None = None) -> Credentials:
    """The credentials in a kubeconfig file of another author; see :func:`given`.

    Raises ConfigError.
    """
    return given(kubeconfig.read_file(path, "the kubeconfig"), str(path), context)


def given(data: bytes, where: str, context: str | None = None) -> Credentials:
    """The credentials in a kubeconfig of another author.

    It must contain all its data, and name neither programs nor files: they would be run and read
    here, and sent to a server that it chooses. The server must prove its identity: otherwise an
    attacker on the path could impersonate it.

    Raises ConfigError, which begins with ``where``.
    """
    try:
        found = from_kubeconfig(data, context)
        if urlsplit(found.server).scheme != "https":
            raise kubeconfig.OwnFileOnly(
                f"{found.server} is no https:// URL, which is allowed in files only"
            )
        if found.insecure:
            raise kubeconfig.OwnFileOnly("insecure-skip-tls-verify is allowed in files only")
    except kubeconfig.OwnFileOnly as error:
        raise kubeconfig.OwnFileOnly(f"{where}: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from error
    return found


def in_cluster(
    environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT
) -> Credentials:
    """The service account of the pod that this process runs in.

    Raises ConfigError outside a pod, or where the pod has no token mounted.
    """
    host = environ.get("KUBERNETES_SERVICE_HOST", "")
    port = environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise ConfigError("not in a cluster: KUBERNETES_SERVICE_HOST is not set")
    token, ca, namespace = folder / "token", folder / "ca.crt", folder / "namespace"
    kubeconfig.read_file(token, "the service account's token")
    authority = f"[{host}]" if ":" in host else host
    return Credentials(
        server=f"https://{authority}:{port}",
        ca=kubeconfig.read_file(ca, "the service account's CA"),
        token_file=str(token),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        origin=Origin((), None, (str(ca), str(token))),
    )


def find(path: Path | None, environ: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """Find the kubeconfig files: the one given, ``KUBECONFIG``, ``~/.kube/config``, or none."""
    if path is not None:
        return (path,)
    named = tuple(Path(part) for part in environ.get("KUBECONFIG", "").split(os.pathsep) if part)
    if named:
        present = tuple(candidate for candidate in named if candidate.exists())
        return present or named  # none exists: reading the first gives the error
    default = Path(environ.get("HOME", "/")) / ".kube" / "config"
    return (default,) if default.exists() else ()


async def load(path: Path | None = None, context: str | None = None) -> Credentials:
    """Load the credentials of the operator: a kubeconfig, or else the pod's service account.

    Raises ConfigError when there are none, or they are invalid.
    """
    await trio.lowlevel.checkpoint()
    paths = find(path)
    if paths:
        return from_files(paths, context)
    try:
        return in_cluster()
    except ConfigError as error:
        raise ConfigError(
            "no kubeconfig found: name one with --kubeconfig or KUBECONFIG"
            f" ({error}, and there is no ~/.kube/config)"
        ) from error


def reload(origin: Origin) -> Credentials:
    """Read the credentials again from their origin. Raises ConfigError."""
    if not origin.paths:
        return in_cluster()
    return from_files(tuple(Path(path) for path in origin.paths), origin.context)


def _select(
    config: kubeconfig.Kubeconfig, context: str | None, files: list[str] | None = None
) -> Credentials:
    """The credentials of one context; ``files`` collects the names of files that are read."""
    name, chosen = config.choose(context)
    cluster = config.cluster(chosen.cluster, f"context {name!r}")
    user = config.user(chosen.user, f"context {name!r}")
    where = f"cluster {chosen.cluster!r}"
    check_url(cluster.server, where)
    if cluster.server_name and not _can_be_host(cluster.server_name):
        raise ConfigError(f"{where}: tls-server-name {cluster.server_name!r} is no host's name")
    if cluster.proxy_url:
        proxies.check(cluster.proxy_url, where, channels=True)
    if cluster.insecure and (cluster.ca_data or cluster.ca_file):
        raise ConfigError(f"{where}: a CA and insecure-skip-tls-verify exclude each other")
    who = f"user {chosen.user!r}"
    kubeconfig.refuse_unsupported(user, who)
    read = kubeconfig.FileReader([] if files is None else files)
    cert = read.pem(user.cert_data, user.cert_file, f"{who}: client-certificate")
    key = read.pem(user.key_data, user.key_file, f"{who}: client-key")
    if (cert is None) != (key is None):
        raise ConfigError(f"{who}: client certificate and client key come only together")
    if user.token_file:
        read.file(user.token_file, f"{who}: tokenFile")
    return Credentials(
        server=cluster.server.rstrip("/"),
        ca=read.pem(cluster.ca_data, cluster.ca_file, f"{where}: certificate-authority"),
        client_cert=cert,
        client_key=key,
        token=user.token or None,
        token_file=user.token_file or None,
        namespace=chosen.namespace or "default",
        insecure=cluster.insecure,
        server_name=cluster.server_name or None,
        proxy=cluster.proxy_url or None,
        exec=_plugin(config, name, chosen, user),
    )


def check_url(server: str, where: str) -> None:
    """Refuse a URL that is no API server's. Raises ConfigError, which begins with ``where``."""
    try:
        parts = urlsplit(server)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f"{where}: server is not a URL: {error}") from error
    if parts.scheme not in ("https", "http") or not parts.hostname or port == 0:
        raise ConfigError(f"{where}: server must be an https:// URL, not {server!r}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigError(f"{where}: server must be a plain URL without user, query or fragment")
    if not server.isascii() or not server.isprintable() or " " in server:
        raise ConfigError(f"{where}: server must be an ASCII URL")
    if not _can_be_host(parts.hostname):
        raise ConfigError(f"{where}: server {parts.hostname!r} is no host's name")


def _can_be_host(name: str) -> bool:
    """True if a name can be resolved: a resolver takes labels of 1 to 63 characters only."""
    try:
        name.encode("idna")
    except UnicodeError:
        return False
    return True


def _plugin(
    config: kubeconfig.Kubeconfig,
    name: str,
    chosen: kubeconfig.KubeconfigContext,
    user: kubeconfig.KubeconfigUser,
) -> ExecPlugin | None:
    """The plugin of a user, with the kubeconfig that the official package needs to run it."""
    raw: dict[str, Any] = config.raw_users.get(chosen.user, {})
    command = raw.get("exec") or {}
    provider = raw.get("auth-provider") or {}
    if not command and not provider:
        return None
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "contexts": [{"name": name, "context": {"cluster": chosen.cluster, "user": chosen.user}}],
        "clusters": [{"name": chosen.cluster, "cluster": config.raw_clusters[chosen.cluster]}],
        "users": [{"name": chosen.user, "user": raw}],
    }
    return ExecPlugin(
        name=str(command.get("command") or provider.get("name") or "auth-provider"),
        document=msgspec.json.encode(document).decode(),
        directory=user.directory,
    )
