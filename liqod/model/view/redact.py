"""Removes keys, tokens and passwords from objects and text. Pure.

The result is fit for a bug report: names, conditions and figures stay, values that may be secret
are replaced by a marker.
"""

import re
from collections.abc import Sequence
from typing import Any

HIDDEN = "(redacted)"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

SECRET_KEYS = re.compile(
    r"(?i)(password|passwd|passphrase|pwd|secret|token|(api|access|account|private)[-_]?key|"
    r"credential|kubeconfig|client-key-data|client-certificate-data|authorization|nonce|signature)"
)
"""Names of fields whose value is hidden where it is a text."""
HARMLESS = frozenset(
    {"secretName", "kubeconfigSecretRef", "secretRef", "secretKeyRef", "imagePullSecrets"}
)
"""Fields with such names that only name a Secret."""
WORDS = (
    r"(?:password|passwd|passphrase|pwd|secret|token|credential|signature|"
    r"(?:api|access|account|private)[-_]?key)"
)
"""Words in the names of secrets: ``DB_PASSWORD``, ``--api-key``, ``X-Amz-Signature``."""
VALUE = r"""(?:"[^"\n]{0,1024}"|'[^'\n]{0,1024}'|[^\s,;"'&]+)"""
INVITATION = re.compile(r"(?i)(?<=#[vb]1\.)[\w-]+|(?<![\w.-])[vb]1\.[\w-]{60,}+(?!\.)")
"""The secret part of an invitation (:mod:`liqod.handshake.protocol.invitationtokens`), also without
its beginning; an advert, which is no secret, has a dot within."""
PATTERNS = (
    INVITATION,
    # Also where the end was cut off.
    re.compile(
        r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
        r"(?:.*?-----END [A-Z ]{0,40}PRIVATE KEY-----|.*)",
        re.S,
    ),
    re.compile(r"LS0tLS1CRUdJTi[A-Za-z0-9+/=]+"),  # the same and certificates, in base64
    re.compile(r"(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"),  # JWT
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"(?<=://)[^/\s\"'?#]+(?=@)"),  # user and password in a URL
    # The same without a scheme, as proxies are named; a digest of an image looks alike.
    re.compile(r"(?<![^\s\"'=])[^\s:/@\"'=,]{1,64}:[^\s/@\"']{1,256}(?=@)(?!@sha\d+:)"),
)
"""Patterns of secrets that are hidden in any text."""
HEADER = re.compile(
    r"(?i)(authorization[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\"']?)"
    r"(?:(?:basic|bearer|digest|negotiate|token)[ \t]+)?[^\s,;\"']+"
)
NAMED = re.compile(rf"(?i)({WORDS}[\w.-]{{0,40}}(?:\\?[\"'])?\s{{0,4}}[=:]\s{{0,4}}\\?)({VALUE})")
"""A value in a text that is called a secret: ``DB_PASSWORD=…``, ``"token": "…"``."""
OPTION = re.compile(rf"(?i)((?<![\w-])--?[\w-]{{0,40}}{WORDS}[\w-]{{0,40}}[ \t]+)({VALUE})")
"""The same in two words: ``--password …``."""
ALONE = re.compile(rf"(?i)--?[\w-]{{0,40}}{WORDS}[\w-]{{0,40}}")
"""The first of these words where each is a text of its own."""


def scrub(text: str) -> str:
    """The text without keys, tokens and passwords, as far as their form shows them.

    Every pattern takes a time that grows with the length of the text and no faster.
    """
    for pattern in PATTERNS:
        text = pattern.sub(HIDDEN, text)
    text = HEADER.sub(rf"\g<1>{HIDDEN}", text)
    for named in (NAMED, OPTION):
        text = named.sub(_hide, text)
    return text


def without_invitations(text: str) -> str:
    """The text without the secrets of invitations, to show users their input."""
    return INVITATION.sub(HIDDEN, text)


def _hide(found: re.Match[str]) -> str:
    """The replacement of a match: its name and its quotes stay, its value is hidden."""
    value = found[2]
    quote = value[0] if value[0] in "\"'" else ""
    return f"{found[1]}{quote}{HIDDEN}{quote}"


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
            named = isinstance(value.get("name"), str) and SECRET_KEYS.search(value["name"])
            hidden = key == "env" or bool(named)  # a variable, a header, a parameter
            return {name: _field(name, inner, hidden=hidden) for name, inner in value.items()}
        case list() | tuple():
            return _words(value, key)
        case str():
            return scrub(value)
    return value


def _words(values: Sequence[Any], key: str) -> list[Any]:
    """The items of a list; in a command line a password may be the one after its option."""
    cleaned, option = [], False
    for value in values:
        text = isinstance(value, str)
        cleaned.append(HIDDEN if option and text else _clean(value, key))
        option = text and ALONE.fullmatch(value) is not None
    return cleaned


def _field(name: str, value: Any, *, hidden: bool) -> Any:
    if hidden and name == "value":
        return HIDDEN
    if isinstance(value, str) and value and name not in HARMLESS and SECRET_KEYS.search(name):
        return HIDDEN
    return _clean(value, name)
