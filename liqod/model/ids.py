"""Cluster ids and every name that is derived from one.

A cluster id becomes a label value, a user name, a group name, an object name and a part of
namespace names, on both clusters; a peer chooses its own. It is checked once, where it is received,
and the functions below make the names from it. Formats are those of Liqo v1.2, checked against
objects of a real peering.
"""

import hashlib
import re
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.errors import ConfigError

LABEL_LIMIT: Final = 63
"""Longest DNS label, label value and namespace name (RFC 1123, Kubernetes)."""
NAME_LIMIT: Final = 253
"""Longest object name (DNS subdomain)."""
COMMON_NAME_LIMIT: Final = 64
"""Longest common name of a certificate (RFC 5280, ub-common-name)."""
TENANT_PREFIX: Final = "liqo-tenant-"
ID_LIMIT: Final = LABEL_LIMIT - len(TENANT_PREFIX)
"""Longest cluster id whose default tenant namespace still is a valid name: 51."""
NODES_SUFFIX: Final = "-nodes"
"""Follows the name of liqod's namespace in that of ``liqod node``'s."""
USER_SUFFIX: Final = 13
"""Characters that :func:`slice_user` adds to a slice's name."""
KEY_DIGITS: Final = COMMON_NAME_LIMIT - ID_LIMIT - 1
"""Digits of a key in :func:`keyed`: the longest id leaves 12 characters."""
SLICE_LIMIT: Final = LABEL_LIMIT - USER_SUFFIX
"""Longest slice name whose user still fits a label value (``liqo.io/creator-user``): 50."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def nodes_namespace(own: str) -> str:
    """The namespace of ``liqod node`` in pods, beside liqod's own."""
    return f"{own}{NODES_SUFFIX}"


def is_dns_label(text: str) -> bool:
    """True if the text is a DNS label of RFC 1123: a namespace or a cluster id can be named so."""
    return len(text) <= LABEL_LIMIT and _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """True if the text is a DNS subdomain of RFC 1123: most objects can be named so."""
    return len(text) <= NAME_LIMIT and _SUBDOMAIN.fullmatch(text) is not None


class IdProblem(msgspec.Struct, frozen=True):
    """An id under which a cluster may not work.

    Attributes:
        what: the fault.
        remedy: the step that ends it.
    """

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


def cluster_id_problem(text: object) -> str | None:
    """The reason why this cannot be a cluster id, in one clause, or None if it can."""
    if not isinstance(text, str) or not text:
        return "a cluster id is a non-empty text"
    if len(text) > ID_LIMIT:
        return f"a cluster id has at most {ID_LIMIT} characters, this one {len(text)}"
    if not is_dns_label(text):
        return (
            "a cluster id holds lower-case letters, digits and inner hyphens only, "
            f"which {text[:80]!r} does not"
        )
    return None


def check_cluster_id(text: object) -> str:
    """The id as it is, if it is one.

    Raises:
        ConfigError: it is not a DNS label, or too long for the names made from it.
    """
    problem = cluster_id_problem(text)
    if problem is not None:
        raise ConfigError(problem)
    assert isinstance(text, str)
    return text


def slice_name_problem(name: str) -> str | None:
    """The reason why a ResourceSlice and its virtual node cannot be named so; None if they can."""
    if len(name) > SLICE_LIMIT:
        return f"a resource slice's name has at most {SLICE_LIMIT} characters, this one {len(name)}"
    if not is_dns_subdomain(name):
        return f"{name!r} is not a DNS name"
    return None


def namespace_problem(name: str) -> str | None:
    """The reason why a namespace cannot be named so; None if it can. Names are never truncated."""
    if len(name) > LABEL_LIMIT:
        return f"namespace name {name!r} has {len(name)} characters; {LABEL_LIMIT} are allowed"
    if not is_dns_label(name):
        return f"{name!r} is not a DNS label"
    return None


def tenant_namespace(cluster_id: str) -> str:
    """The default name of the namespace of a peer: ``liqo-tenant-<id>``."""
    return f"{TENANT_PREFIX}{cluster_id}"


def remote_namespace(namespace: str, consumer: str) -> str:
    """The default name of a mapped namespace at the provider: ``<namespace>-<consumer>``.

    It may be too long: see :func:`namespace_problem`.
    """
    return f"{namespace}-{consumer}"


def managed_by_map(tenant: str, name: str) -> str:
    """Value of the annotation that ties a mapped namespace to its NamespaceMap."""
    return f"{tenant}/{name}"


def slice_user(slice_name: str, consumer: str) -> str:
    """User name (CN) of a slice's certificate and name of its Quota.

    ``<slice>-<first 6 bytes of SHA-256(consumer id), hex>``.
    """
    return f"{slice_name}-{hashlib.sha256(consumer.encode()).digest()[:6].hex()}"


def is_slice_user(user: str, consumer: str) -> bool:
    """True if a user name is one that a slice of that consumer can have."""
    return user.endswith(slice_user("", consumer))


def keyed(consumer: str, key: str) -> str:
    """Name of the user of a consumer's control plane, and of the group of its slices, that no other
    key has: ``<consumer>:<first 12 digits of the key's SHA-256>``. No Liqo makes such a name."""
    return f"{consumer}:{key[:KEY_DIGITS]}"


def is_keyed(name: str) -> bool:
    """True if a user or group is named by :func:`keyed`; nothing that Liqo names has a colon."""
    return ":" in name


def control_plane_identity(provider: str) -> str:
    """Name of the Identity and of the Renew of the control plane: ``controlplane-<provider>``."""
    return f"controlplane-{provider}"


def slice_identity(slice_name: str) -> str:
    """Name of the Identity of a slice: ``resourceslice-<slice>``."""
    return f"resourceslice-{slice_name}"


def kubeconfig_secret(identity: str) -> str:
    """Name of the Secret that holds an Identity's kubeconfig: ``kubeconfig-<identity>``."""
    return f"kubeconfig-{identity}"


def gateway_resource(gateway: str) -> str:
    """Name of the objects of a gateway: Secrets, the Connection."""
    return f"gw-{gateway}"


def certificate_secret(slice_name: str | None = None) -> str:
    """Name of the provider's Secret of an issued certificate, of the control plane or a slice."""
    base = "liqo-remote-certificate"
    return base if slice_name is None else f"{base}-{slice_name}"


def cluster_wide_binding(consumer: str) -> str:
    """Name of the ClusterRoleBinding of a consumer's group."""
    return f"liqo-binding-{labels.CLUSTER_WIDE_ROLE}-{consumer}"


def token_secret(pod: str) -> str:
    """Name of the Secret at the provider that has a pod's tokens: ``<pod>-token`` (Liqo's).

    One that would be too long is cut, and made unique by a digest.
    """
    name = f"{pod}-token"
    if len(name) <= NAME_LIMIT:
        return name
    digest = hashlib.sha256(pod.encode()).hexdigest()[:10]
    return f"{pod[: NAME_LIMIT - 17].rstrip('.-')}-{digest}-token"


def root_ca_name(consumer: str) -> str:
    """Name under which the consumer's ``kube-root-ca.crt`` is reflected.

    ``kube-root-ca.crt.<first 5 characters of the id>``, and ``a`` if the last is a hyphen.
    """
    name = f"{labels.ROOT_CA}.{consumer[:5]}"
    return name if name[-1].isalnum() else f"{name}a"


def remote_config_map(name: str, consumer: str) -> str:
    """Name of a ConfigMap at the provider: its own, but for the root CA."""
    return root_ca_name(consumer) if name == labels.ROOT_CA else name
