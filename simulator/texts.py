"""UIDs, random name suffixes and the rules for names and labels."""

import os
import random
import re
import uuid
from typing import Any

from simulator.catalog import Resource
from simulator.wire.failures import Cause, required, wrong

Json = dict[str, Any]

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_DNS_LABEL = re.compile(_LABEL)
_SERVICE = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
    " '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SERVICE_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
    " alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123',"
    " regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
    " '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def new_uid() -> str:
    """A random UID."""
    return str(uuid.UUID(bytes=os.urandom(16), version=4))


def suffix(length: int = 5) -> str:
    """The random end that ``generateName`` appends."""
    return "".join(random.choices(_ALPHABET, k=length))


def check_name(resource: Resource, name: str) -> list[Cause]:
    """The faults of an object's name."""
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    match resource.names:
        case "segment":
            bad = name in (".", "..") or "/" in name or "%" in name
            return [wrong("metadata.name", name, "may not contain '/'")] if bad else []
        case "label":
            rule, pattern, most = LABEL_RULE, _DNS_LABEL, 63
        case "service":
            rule, pattern, most = SERVICE_RULE, _SERVICE, 63
        case _:
            rule, pattern, most = SUBDOMAIN_RULE, _SUBDOMAIN, 253
    causes = []
    if len(name) > most:
        causes.append(wrong("metadata.name", name, f"must be no more than {most} characters"))
    if resource.names == "label" and "." in name:
        causes.append(wrong("metadata.name", name, "must not contain dots"))
    elif pattern.fullmatch(name) is None:
        causes.append(wrong("metadata.name", name, rule))
    return causes


def check_labels(labels: object, path: str = "metadata.labels") -> list[Cause]:
    """The faults of labels."""
    causes = []
    for key, value in (labels if isinstance(labels, dict) else {}).items():
        prefix, slash, name = key.rpartition("/")
        if len(name) > 63 or _QUALIFIED.fullmatch(name) is None:
            causes.append(wrong(path, key, "name part must consist of alphanumeric characters"))
        elif slash and _SUBDOMAIN.fullmatch(prefix) is None:
            causes.append(wrong(path, key, f"prefix part {SUBDOMAIN_RULE}"))
        if not isinstance(value, str) or _LABEL_VALUE.fullmatch(value) is None:
            causes.append(wrong(path, value, VALUE_RULE))
        elif len(value) > 63:
            causes.append(wrong(path, value, "must be no more than 63 characters"))
    return causes
