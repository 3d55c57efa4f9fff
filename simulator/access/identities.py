"""Authentication: client certificates, bearer tokens (static or ServiceAccounts'), impersonation.

Service account tokens are signed with an HMAC of the cluster's own; nobody but this server
verifies them.
"""

import base64
import functools
import hashlib
import hmac
import os
import ssl
import time
from contextvars import ContextVar
from typing import Any

import msgspec

from liqod.kube.http.httpserver import HttpRequest
from simulator.storage.storage import Storage
from simulator.wire.failures import ApiError

Json = dict[str, Any]

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
ISSUER = "https://kubernetes.default.svc.cluster.local"


class User(msgspec.Struct, frozen=True):
    """A requester, as authentication found it."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: dict[str, list[str]] = {}


ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
REQUESTER: ContextVar[User | None] = ContextVar("requester", default=None)
"""The user whose request this task handles; None in the server's own controllers."""


def _segment(value: object) -> str:
    return _base64(msgspec.json.encode(value))


def _base64(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _unsegment(text: str) -> Any:
    return msgspec.json.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


class Authenticator:
    """Finds the user of a request and signs tokens of service accounts.

    Attributes:
        tokens: static bearer tokens.
        secret: signs the tokens.
    """

    def __init__(self, storage: Storage) -> None:
        self.tokens: dict[str, User] = {}
        self.secret = os.urandom(32)
        self._storage = storage

    def identify(self, request: HttpRequest) -> User:
        """The user of a request, anonymous without credentials.

        Raises:
            ApiError: 401, the credentials are not good.
        """
        user = self._identify(request)
        REQUESTER.set(user)
        return user

    def _identify(self, request: HttpRequest) -> User:
        authorization = request.headers.get("authorization", "")
        if request.peer_certificate is not None:
            return _from_certificate(request.peer_certificate)
        if authorization[:7].lower() == "bearer ":
            user = self.of_token(authorization[7:].strip())
            if user is None:
                raise unauthorized()
            return user
        return ANONYMOUS

    def of_token(self, token: str, audiences: tuple[str, ...] = (ISSUER,)) -> User | None:
        """The user that a token authenticates, or None."""
        if token in self.tokens:
            return self.tokens[token]
        header, dot, signature = token.rpartition(".")
        if not dot or not hmac.compare_digest(signature, self._sign(header)):
            return None
        try:
            claims = _unsegment(header.partition(".")[2])
        except (ValueError, msgspec.DecodeError):
            return None
        if claims["exp"] < time.time() or not set(audiences) & set(claims["aud"]):
            return None
        return self._account(claims["kubernetes.io"])

    def _account(self, claims: Json) -> User | None:
        namespace, account = claims["namespace"], claims["serviceaccount"]
        found = self._storage.of("serviceaccounts").get(namespace, account["name"])
        if found is None or found.uid != account["uid"]:
            return None
        pod = claims.get("pod")
        if pod and self._storage.place(pod["uid"]) is None:
            return None
        return account_user(namespace, account["name"], account["uid"])

    def _sign(self, text: str) -> str:
        return _base64(hmac.new(self.secret, text.encode(), hashlib.sha256).digest())

    def issue(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        seconds: int,
        audiences: list[str],
        pod: Json | None = None,
    ) -> str:
        """A token of a service account."""
        now = int(time.time())
        inner: Json = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
        if pod is not None:
            inner["pod"] = {"name": pod.get("name", ""), "uid": pod.get("uid", "")}
        claims = {
            "aud": audiences or [ISSUER],
            "exp": now + seconds,
            "iat": now,
            "nbf": now,
            "iss": ISSUER,
            "jti": _base64(os.urandom(9)),
            "kubernetes.io": inner,
            "sub": f"system:serviceaccount:{namespace}:{name}",
        }
        head = f"{_segment({'alg': 'HS256', 'typ': 'JWT'})}.{_segment(claims)}"
        return f"{head}.{self._sign(head)}"


def account_user(namespace: str, name: str, uid: str = "") -> User:
    """The user that a service account is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid)


def unauthorized() -> ApiError:
    """401."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def _from_certificate(certificate: dict[str, Any]) -> User:
    pairs = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in pairs if key == "commonName"]
    if not names or _seconds(certificate["notAfter"]) < time.time():
        raise unauthorized()
    groups = tuple(value for key, value in pairs if key == "organizationName")
    return User(names[0], (*groups, AUTHENTICATED))


@functools.cache
def _seconds(moment: str) -> int:
    """Unix time of a certificate's end: every request on a connection shows the same one."""
    return ssl.cert_time_to_seconds(moment)
