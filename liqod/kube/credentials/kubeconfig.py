"""The kubeconfig format: YAML to structs, with errors that name place and fault, never a secret.

Paths in a file are relative to its folder, so they are made absolute before files are merged.
"""

import base64
import binascii
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml

from liqod.errors import ConfigError

T = TypeVar("T")

MAX_FILE = 4 << 20
"""Most bytes of a kubeconfig, and of any file it names."""


class OwnFileOnly(ConfigError):
    """A kubeconfig of another author has a field that only the operator's own file may have."""


class KubeconfigCluster(msgspec.Struct, frozen=True):
    """``clientcmd/v1.Cluster``."""

    server: str = ""
    ca_data: str | None = msgspec.field(name="certificate-authority-data", default=None)
    ca_file: str | None = msgspec.field(name="certificate-authority", default=None)
    insecure: bool = msgspec.field(name="insecure-skip-tls-verify", default=False)
    server_name: str | None = msgspec.field(name="tls-server-name", default=None)
    proxy_url: str | None = msgspec.field(name="proxy-url", default=None)


class KubeconfigUser(msgspec.Struct, frozen=True):
    """``clientcmd/v1.AuthInfo``; ``directory`` is the folder of its file."""

    cert_data: str | None = msgspec.field(name="client-certificate-data", default=None)
    cert_file: str | None = msgspec.field(name="client-certificate", default=None)
    key_data: str | None = msgspec.field(name="client-key-data", default=None)
    key_file: str | None = msgspec.field(name="client-key", default=None)
    token: str | None = None
    token_file: str | None = msgspec.field(name="tokenFile", default=None)
    username: str | None = None
    impersonate: str | None = msgspec.field(name="as", default=None)
    directory: str = ""


class KubeconfigContext(msgspec.Struct, frozen=True):
    """``clientcmd/v1.Context``."""

    cluster: str = ""
    user: str = ""
    namespace: str | None = None


class _NamedCluster(msgspec.Struct, frozen=True):
    name: str
    cluster: dict[str, Any] | None = None


class _NamedUser(msgspec.Struct, frozen=True):
    name: str
    user: dict[str, Any] | None = None


class _NamedContext(msgspec.Struct, frozen=True):
    name: str
    context: KubeconfigContext | None = None


class _Document(msgspec.Struct, frozen=True):
    kind: str = "Config"
    current_context: str | None = msgspec.field(name="current-context", default=None)
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


class Kubeconfig(msgspec.Struct, frozen=True):
    """One or several kubeconfig files as a whole."""

    current: str
    contexts: dict[str, KubeconfigContext]
    raw_clusters: dict[str, dict[str, Any]]
    raw_users: dict[str, dict[str, Any]]

    def choose(self, name: str | None) -> tuple[str, KubeconfigContext]:
        """The context of that name, or the current one. Raises ConfigError."""
        wanted = name or self.current
        known = ", ".join(sorted(self.contexts)) or "none"
        if not wanted:
            raise ConfigError(f"there is no current-context; choose one of: {known}")
        if wanted not in self.contexts:
            raise ConfigError(f"there is no context {wanted!r}; there are: {known}")
        return wanted, self.contexts[wanted]

    def cluster(self, name: str, asked_by: str) -> KubeconfigCluster:
        """The cluster of that name. Raises ConfigError."""
        if name not in self.raw_clusters:
            raise ConfigError(f"{asked_by} names the cluster {name!r}, which is not there")
        return _convert(self.raw_clusters[name], KubeconfigCluster, f"cluster {name!r}")

    def user(self, name: str, asked_by: str) -> KubeconfigUser:
        """The user of that name, or one without credentials for no name. Raises ConfigError."""
        if not name:
            return KubeconfigUser()
        if name not in self.raw_users:
            raise ConfigError(f"{asked_by} names the user {name!r}, which is not there")
        return _convert(self.raw_users[name], KubeconfigUser, f"user {name!r}")


class FileReader:
    """Reads the data of a kubeconfig and its files, and notes the files it read in ``files``."""

    def __init__(self, files: list[str]) -> None:
        self.files = files

    def file(self, path: str, where: str) -> bytes:
        """The content of a file. Raises ConfigError."""
        self.files.append(path)
        return read_file(path, where)

    def pem(self, data: str | None, path: str | None, where: str) -> bytes | None:
        """PEM given as base64 or by a file; data wins over the file. Raises ConfigError."""
        if data:
            try:
                content = base64.b64decode("".join(data.split()), validate=True)
            except (binascii.Error, ValueError) as error:
                raise ConfigError(f"{where}-data is not base64: {error}") from error
        elif path:
            content = self.file(path, where)
        else:
            return None
        if b"-----BEGIN " not in content:
            raise ConfigError(f"{where} holds no PEM block (-----BEGIN …)")
        return content


def parse(data: bytes | str, base: Path | None) -> Kubeconfig:
    """A kubeconfig's text as structs, its paths absolute.

    Args:
        data: YAML or JSON.
        base: folder that paths start from; None refuses paths and programs.

    Raises ConfigError.
    """
    document = _decode(data)
    clusters = {item.name: dict(item.cluster or {}) for item in document.clusters or ()}
    users = {item.name: dict(item.user or {}) for item in document.users or ()}
    for name, cluster in clusters.items():
        _anchor(cluster, ("certificate-authority",), base, f"cluster {name!r}")
    for name, user in users.items():
        paths = ("client-certificate", "client-key", "tokenFile")
        _anchor(user, paths, base, f"user {name!r}")
        if base is None and (user.get("exec") or user.get("auth-provider")):
            raise OwnFileOnly(f"user {name!r} runs a program, which is allowed in files only")
        for key in ("exec", "auth-provider"):
            if not isinstance(user.get(key) or {}, dict):
                raise ConfigError(f"user {name!r}: {key} must be a mapping")
        user["directory"] = str(base or "")
    return Kubeconfig(
        current=document.current_context or "",
        contexts={
            item.name: item.context or KubeconfigContext() for item in document.contexts or ()
        },
        raw_clusters=clusters,
        raw_users=users,
    )


def merge(configs: Sequence[Kubeconfig]) -> Kubeconfig:
    """Merge several files: of entries with the same name, the first file's counts."""
    contexts: dict[str, KubeconfigContext] = {}
    clusters: dict[str, dict[str, Any]] = {}
    users: dict[str, dict[str, Any]] = {}
    for config in reversed(configs):
        contexts.update(config.contexts)
        clusters.update(config.raw_clusters)
        users.update(config.raw_users)
    current = next((config.current for config in configs if config.current), "")
    return Kubeconfig(current, contexts, clusters, users)


def read_file(path: Path | str, what: str) -> bytes:
    """Read a small file. Raises ConfigError if it cannot be read or is no such file."""
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {what} {path}: {error.strerror}") from error
    if len(data) > MAX_FILE:
        raise ConfigError(f"cannot read {what} {path}: larger than {MAX_FILE >> 20} MiB")
    return data


def refuse_unsupported(user: KubeconfigUser, where: str) -> None:
    """Refuse fields that would make another user than the kubeconfig means. Raises ConfigError."""
    if user.username:
        raise ConfigError(f"{where}: user name and password are not supported by Kubernetes")
    if user.impersonate:
        raise ConfigError(f"{where}: impersonation (as) is not supported")


def _decode(data: bytes | str) -> _Document:
    try:
        value = yaml.safe_load(data)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = f" (line {mark.line + 1})" if mark else ""
        # The cause quotes the lines around: a traceback would show keys.
        raise ConfigError(f"not a kubeconfig: bad YAML: {error.problem}{line}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(f"not a kubeconfig: bad YAML: {type(error).__name__}") from None
    if not isinstance(value, dict):
        raise ConfigError("not a kubeconfig: it is no mapping")
    document = _convert(value, _Document, "kubeconfig")
    if document.kind != "Config":
        raise ConfigError(f"not a kubeconfig: its kind is {document.kind!r}, not 'Config'")
    return document


def _convert(value: Any, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{where}: {error}") from error


def _anchor(entry: dict[str, Any], keys: Sequence[str], base: Path | None, where: str) -> None:
    """Make the paths in an entry absolute, or refuse them."""
    for key in keys:
        path = entry.get(key)
        if not path:
            continue
        if base is None:
            raise OwnFileOnly(f"{where}: {key} names a file, which is allowed in files only")
        if not isinstance(path, str):
            raise ConfigError(f"{where}: {key} must be a path")
        entry[key] = str(base / path)
