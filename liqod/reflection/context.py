"""What one turn of the engine works with: what the engine gives, and what is so for one object."""

from typing import Any, NamedTuple, Protocol

import msgspec

from liqod.consumer.remotes import Remotes
from liqod.kube.cache.informer import Informer
from liqod.kube.cache.store import Store
from liqod.kube.kinds import Kind
from liqod.kube.meta import Partial
from liqod.peer import Peer
from liqod.plugins.contracts import Json, Names, Policy, Reason, Reflector, RemoteKind
from liqod.reflection.needs import Needs
from liqod.reflection.observed import Source, Stamps
from liqod.reflection.session import Session
from liqod.reflection.view import Dependencies, Key, Subject

DOUBT = 5.0
"""Seconds between looks at an absence that is not believed yet."""

Version = tuple[str, str]
"""UID and resourceVersion."""


class State(NamedTuple):
    """All that a decision about one object goes by, where it reads nothing else.

    Attributes:
        session: of its namespace.
        names: names and settings.
        source: the version of the object, None where it is not there.
        there: the state of what it has at the peer, for each kind that the reflector declares.
    """

    session: Session | None
    names: Names
    source: Version | None
    there: tuple[Stamps, ...]


class _Meta(msgspec.Struct, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


_object = msgspec.json.Decoder(_Object)


def version_of(body: bytes) -> Version:
    """The version of an object, given as JSON."""
    meta = _object.decode(body).metadata
    return meta.uid, meta.resource_version


class Context(Protocol):
    """What a worker is given of the engine."""

    peer: Peer
    grace: float
    remotes: Remotes
    needs: Needs
    dependencies: Dependencies

    def session(self, namespace: str) -> Session | None:
        """The session of a mapped namespace."""
        ...

    def names(self, namespace: str) -> Names:
        """Names and settings as they are for a namespace."""
        ...

    def store(self, kind: Kind, namespace: str) -> Store | None:
        """The local store in which objects of a kind and namespace are."""
        ...

    def placed(self, kind: Kind) -> Informer | None:
        """The cluster-wide informer of a kind whose objects are on nodes."""
        ...

    def policy(self, reflector: str) -> Policy:
        """The policy in force for a reflector."""
        ...

    def ask_again(self, subject: Subject) -> None:
        """Have an object looked at, whatever it was left with."""
        ...

    def settings(self, reflector: str) -> Any:
        """The settings of a reflector, as its own type has them."""
        ...

    def now(self) -> str:
        """RFC 3339 time."""
        ...


class Work(msgspec.Struct):
    """One turn at one object.

    Attributes:
        subject: which.
        session: of its namespace; None where that is not mapped.
        source: the object; None where it is gone or not the peer's concern.
        hold: it is not the peer's concern any more, but what is there is not to be touched yet.
        names: names and settings.
        blind: what is at the peer is not known, since it has not been read yet.
        pauses: seconds after which somebody wants another look.
        reasons: what has come up.
        settled: whether all is as wanted, and stays so until something changes that is in a
            :class:`State`.
        written: the version that our own write of a status left.
    """

    subject: Subject
    session: Session | None
    source: Json | None
    hold: bool
    names: Names
    blind: bool = False
    pauses: list[float] = msgspec.field(default_factory=list)
    reasons: list[Reason] = msgspec.field(default_factory=list)
    settled: bool = True
    written: Version | None = None

    @property
    def key(self) -> Key:
        """Namespace and name of the object."""
        return self.subject.namespace, self.subject.name

    @property
    def origin(self) -> Source:
        """How what was made from it is marked."""
        return self.subject.reflector, self.subject.name

    def has(self, reflector: Reflector) -> list[tuple[RemoteKind, Partial]]:
        """What it has at the peer, of all kinds that the reflector declares."""
        if self.session is None:
            return []
        return [
            (there, live)
            for there in reflector.remote
            for live in self.session.observed[there.kind].of(self.origin)
        ]


def publish(context: Context, work: Work, action: str, reason: str = "", *, kind: str = "") -> None:
    """Tell the hub what was done about an object, and why."""
    context.peer.report(
        "reflection",
        reflector=work.subject.reflector,
        namespace=work.subject.namespace,
        name=work.subject.name,
        action=action,
        reason=reason,
        kind=kind,
    )


def bare(source: Json) -> Json:
    """An object without its status: what is said of that is not to depend on what it was."""
    return {name: value for name, value in source.items() if name != "status"}
