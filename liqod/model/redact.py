"""Takes out of objects and text what nobody should pass on: keys, tokens, passwords. Pure.

What is left is fit for a bug report: names, conditions and figures stay, values that may be secret
are replaced by a word that says so.
"""

import re
from typing import Any

HIDDEN = "(redacted)"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

SECRET_KEYS = re.compile(
    r"(?i)(password|passwd|passphrase|secret|token|api[-_]?key|private[-_]?key|credential|"
    r"kubeconfig|client-key-data|client-certificate-data|authorization|nonce|signature)"
)
"""Names of fields whose value is hidden where it is a text."""
HARMLESS = frozenset(
    {"secretName", "kubeconfigSecretRef", "secretRef", "secretKeyRef", "imagePullSecrets"}
)
"""Fields with such names that only say which Secret is meant."""
PATTERNS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.S),
    re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]+"),  # the same and certificates, in base64
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"),  # JSON web tokens
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"(?<=://)[^/@\s:]+:[^/@\s]+(?=@)"),  # user and password in a URL
)
"""What is hidden wherever it stands."""
NAMED = re.compile(
    r"(?i)\b((?:password|passwd|secret|token|api[-_]?key)[\"']?\s*[=:]\s*[\"']?)[^\s,;\"']+"
)
"""A value in a text that is called a secret: ``--password=…``."""


def scrub(text: str) -> str:
    """A text without keys and tokens."""
    for pattern in PATTERNS:
        text = pattern.sub(HIDDEN, text)
    return NAMED.sub(rf"\g<1>{HIDDEN}", text)


def redact(found: dict[str, Any]) -> dict[str, Any]:
    """A Kubernetes object without its secrets, and without ``managedFields``."""
    plain = {key: value for key, value in found.items() if key not in ("data", "stringData")}
    if found.get("kind") in ("Secret", "ConfigMap"):
        for field in ("data", "stringData", "binaryData"):
            if field in found:
                plain[field] = dict.fromkeys(found[field] or {}, HIDDEN)
    elif "data" in found:
        plain["data"] = found["data"]
    metadata = dict(plain.get("metadata") or {})
    metadata.pop("managedFields", None)
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != APPLIED}
    if "annotations" in metadata:
        metadata["annotations"] = notes
    result: dict[str, Any] = _clean({**plain, "metadata": metadata})
    return result


def redact_value(value: Any) -> Any:
    """Any JSON value without keys and tokens, and without the values of fields named after them."""
    return _clean(value)


def _clean(value: Any, key: str = "") -> Any:
    match value:
        case dict():
            return {name: _clean_field(name, inner, key) for name, inner in value.items()}
        case list() | tuple():
            return [_clean(each, key) for each in value]
        case str():
            return scrub(value)
    return value


def _clean_field(name: str, value: Any, above: str) -> Any:
    if above == "env" and name == "value":
        return HIDDEN
    if isinstance(value, str) and value and name not in HARMLESS and SECRET_KEYS.search(name):
        return HIDDEN
    return _clean(value, name)
