"""Allow lists: keys of labels and annotations, names of hosts, names of classes. Pure.

The patterns are few and simple, since an API server has to apply the same ones in an admission
policy (:mod:`liqod.provider.policies.guestkeys`) as the daemon does:

* of keys: a whole key; ``example.com/*`` for all of a domain; ``*`` for all keys without a domain,
  such as ``app``; ``*/*`` for all keys;
* of hosts: a whole name; ``*.example.com`` for all names below it; ``*`` for all;
* of classes: a whole name, or ``*`` for all.
"""

import re
from collections.abc import Iterable
from typing import Final

from liqod.apimachinery import labels

ALL_KEYS: Final = "*/*"
ALL: Final = "*"


def key_allowed(key: str, patterns: Iterable[str]) -> bool:
    """True if a label's or annotation's key matches a list of patterns."""
    domain, slash, _ = key.partition("/")
    wide = f"{domain}/*" if slash else ALL
    return any(pattern in (key, wide, ALL_KEYS) for pattern in patterns)


def pattern_problem(pattern: str) -> str:
    """The reason why a text is no pattern of keys, as a clause; empty if it is one."""
    if pattern in (ALL, ALL_KEYS):
        return ""
    domain, slash, name = pattern.partition("/")
    if not pattern or any(each.isspace() for each in pattern):
        return f"{pattern!r} is no key"
    if ALL in domain or (ALL in name and name != ALL) or "/" in name or (slash and not name):
        return f"{pattern!r} is neither a key nor of the form `domain/*`, `*` or `*/*`"
    return ""


def host_problem(pattern: str) -> str:
    """The reason why a text is no pattern of hosts, as a clause; empty if it is one."""
    rest = pattern.removeprefix(ALL)
    if not pattern or ALL in rest or any(each.isspace() for each in pattern):
        return f"{pattern!r} is no host: a `*` stands at the beginning only"
    if rest and rest != pattern and not rest.startswith("."):
        return f"{pattern!r} is no host: `*` is followed by a dot"
    return ""


def class_problem(pattern: str) -> str:
    """The reason why a text is no name of a class, as a clause; empty if it is one."""
    if pattern == ALL:
        return ""
    bad = not pattern or ALL in pattern or any(each.isspace() for each in pattern)
    return f"{pattern!r} is no class: a name, or `*` for all" if bad else ""


PROTOCOL: Final = ("liqo.io/", "offloading.liqo.io/")
OWN: Final = (
    *(labels.SOURCE, labels.APPLIED_HASH, labels.APPLIED_KEYS, labels.LOCAL_UID, labels.ADOPTED),
    *(labels.DELETION_GRACE, labels.CHANGES, labels.LEFT_OUT, labels.NOTE, labels.CLAIM_UID),
)
"""Domains of the keys that both sides use, and liqod's own keys on the objects of a consumer: they
are on every list. No other key of ``liqod.io`` is: by some a daemon recognises its own objects."""
STRANGE_ANNOTATIONS: Final = "annotations that are not for guests: "
STRANGE_LABELS: Final = "labels that are not for guests: "
"""Beginnings of a provider's refusal of keys that are on no list; the keys follow, separated by
commas."""

GUEST_LABELS: Final = (
    ALL,
    *("app.kubernetes.io/*", "apps.kubernetes.io/*", "batch.kubernetes.io/*", "helm.sh/*"),
    *("statefulset.kubernetes.io/*", "topology.kubernetes.io/*", "endpointslice.kubernetes.io/*"),
    *("kubernetes.io/service-name", "service.kubernetes.io/headless"),
)
"""Labels of ordinary workloads: those without a domain, and those of Kubernetes and Helm."""
GUEST_ANNOTATIONS: Final = (
    ALL,
    *("app.kubernetes.io/*", "apps.kubernetes.io/*", "batch.kubernetes.io/*", "helm.sh/*"),
    *("meta.helm.sh/*", "checksum/*", "kubectl.kubernetes.io/*", "deployment.kubernetes.io/*"),
    *("kubernetes.io/description", "kubernetes.io/change-cause", "endpoints.kubernetes.io/*"),
    *("volume.kubernetes.io/*", "volume.beta.kubernetes.io/storage-provisioner"),
    "container.apparmor.security.beta.kubernetes.io/*",
)
"""Annotations by which no controller is known to act beyond the object that has them."""

_SAID = re.compile(
    f"({re.escape(STRANGE_ANNOTATIONS)}|{re.escape(STRANGE_LABELS)})"
    r"([A-Za-z0-9._/-]+(?:, [A-Za-z0-9._/-]+)*)"
)


def brings(key: str, patterns: Iterable[str]) -> bool:
    """True if a guest may bring a key: one that is on the list, or of the protocol."""
    return _is_protocol(key) or key_allowed(key, patterns)


def _is_protocol(key: str) -> bool:
    return key.startswith(PROTOCOL) or key in OWN


def refused(message: str) -> tuple[frozenset[str], frozenset[str]]:
    """The keys of labels and of annotations that a provider's refusal names; none if it is another
    refusal.

    Keys of the protocol are never among them: without those nothing could be found again.
    """
    found: dict[str, frozenset[str]] = {}
    for said, named in _SAID.findall(message):
        found[said] = frozenset(key for key in named.split(", ")[:64] if not _is_protocol(key))
    return found.get(STRANGE_LABELS, frozenset()), found.get(STRANGE_ANNOTATIONS, frozenset())
