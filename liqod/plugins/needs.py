"""What a reflector can ask the engine to fetch: typed values, and what fulfils them.

A need is a value, so two objects that ask for the same share one answer. They are part of the
contract and are imported from :mod:`liqod.plugins.contracts`.
"""

import msgspec

from liqod.kube.kinds import Kind


class Need(msgspec.Struct, frozen=True, tag=True):
    """Something the engine fetches, keeps until it expires and shows in the view."""


class ServiceAccountToken(Need, frozen=True, kw_only=True):
    """A token of a local service account, bound to a pod; fulfilled by a :class:`Token`.

    Attributes:
        account: the service account, in the object's own namespace.
        pod: name of the pod it is bound to.
        pod_uid: UID of that pod.
        audience: whom it is for; empty means the API server.
        seconds: asked life, at least 600 (the API server's own bound).
    """

    account: str
    pod: str
    pod_uid: str
    audience: str = ""
    seconds: int = 3600


class RemoteObject(Need, frozen=True, kw_only=True):
    """A whole object over there that the watch does not show; fulfilled by it, or by ``{}``.

    Attributes:
        kind: its kind, one that the reflector declares.
        name: its name, in the mapped namespace.
        version: the resourceVersion seen; another one is another need.
        lasts: seconds until the answer is old, and the object is read again if still needed.
    """

    kind: Kind
    name: str
    version: str = ""
    lasts: float = 600.0


class Token(msgspec.Struct, frozen=True):
    """What fulfils a :class:`ServiceAccountToken`.

    Attributes:
        text: the token.
        expires: RFC 3339 time of its end.
    """

    text: str
    expires: str
