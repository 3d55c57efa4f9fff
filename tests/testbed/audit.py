"""Reads the requests of one user to a real API server, and their answers, from the audit log."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from liqod.install.daemonrights import DaemonRule

DAEMON = "system:serviceaccount:liqo:liqod"
"""The user as which a daemon runs after `liqod install --write-kubeconfig`."""
FORBIDDEN = 403


class Request(NamedTuple):
    """One request of a user's.

    Attributes:
        verb: as RBAC names it.
        group: of the API.
        resource: with its sub-resource, as in a rule.
        name: of the object, where it names one.
        code: of the answer.
        message: the answer's words where it is a refusal.
    """

    verb: str
    group: str
    resource: str
    name: str
    code: int
    message: str

    def is_granted_by(self, rule: DaemonRule) -> bool:
        """True if that rule grants this request."""
        return (
            self.group in rule.groups
            and self.resource in rule.resources
            and self.verb in rule.verbs
            and (not rule.names or self.name in rule.names)
        )


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    api_group: str = ""
    subresource: str = ""
    name: str = ""


class _Status(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class _Entry(msgspec.Struct, frozen=True, rename="camel"):
    verb: str = ""
    user: _User = _User()
    object_ref: _Object | None = None
    response_status: _Status = _Status()


_decoder = msgspec.json.Decoder(_Entry)


def of_user(log: Path, user: str = DAEMON) -> set[Request]:
    """Every kind of request that a user has made, once."""
    found: set[Request] = set()
    with log.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break  # it is being written
            entry = _decoder.decode(line)
            about = entry.object_ref
            if entry.user.username != user or about is None:
                continue
            resource = "/".join(filter(None, (about.resource, about.subresource)))
            status = entry.response_status
            refusal = status.message if status.code == FORBIDDEN else ""
            name = about.name if resource == "clusterroles" else ""
            found.add(Request(entry.verb, about.api_group, resource, name, status.code, refusal))
    return found


def unused(rules: Iterable[DaemonRule], requests: Iterable[Request]) -> set[tuple[str, str]]:
    """The rights that no request has needed: resource and verb."""
    used = {(request.group, request.resource, request.verb) for request in requests}
    return {
        (resource, verb)
        for rule in rules
        for resource in rule.resources
        for verb in rule.verbs
        if not any((group, resource, verb) in used for group in rule.groups)
    }
