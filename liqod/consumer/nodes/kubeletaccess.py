"""Authentication and authorization of requests to the kubelet API of virtual nodes.

A caller shows a client certificate of the authority that the API server trusts itself, or a bearer
token that the API server knows. Then, for streams, it must be allowed to ``create`` ``nodes/proxy``
of that node: with a kubelet, ``get`` is enough to run commands by WebSocket; here it is not. For
a node's own pages it must be allowed to ``get`` that alone, such as ``nodes/metrics``.
"""

import hashlib
import ssl
from collections.abc import Hashable
from typing import Any, Final

import trio

from liqod.apimachinery.kinds import CONFIG_MAPS
from liqod.cluster.context import ClusterContext
from liqod.consumer.nodes.podproxy import PodProxies
from liqod.consumer.nodes.servingcertificate import ServingCertificate
from liqod.consumer.timings import ORDINARY, ConsumerTimings
from liqod.errors import Forbidden, LiqodError, Unauthorized
from liqod.identity.certificates import Pair
from liqod.kube.http import tls
from liqod.kube.http.httpserver import HttpRequest
from liqod.kube.reviews import AuthenticatedUser, bearer_in, may, user_of

AUTHORITY: Final = "extension-apiserver-authentication"
"""ConfigMap in which an API server shows the authority whose client certificates it trusts."""
SYSTEM: Final = "kube-system"
MOST_KEPT: Final = 512
"""Number of answers to readers that are remembered."""


class Access:
    """Authenticates the callers of the kubelet API, and asks the API server for their rights.

    Args:
        proxies: to the pods at peers.
        timings: how long an answer is remembered.
        most: number of answers that are remembered.

    Attributes:
        problem: the reason that no client certificate is accepted; empty where they are.
        serving: keeps the certificate that is shown.
    """

    def __init__(
        self,
        context: ClusterContext,
        proxies: PodProxies,
        timings: ConsumerTimings = ORDINARY,
        most: int = MOST_KEPT,
    ) -> None:
        self._context, self._timings, self._most = context, timings, most
        self._authority = self.problem = ""
        self.serving = ServingCertificate(context, proxies, self._show)
        self._kept: dict[Hashable, tuple[float, AuthenticatedUser | None]] = {}

    def context(self) -> ssl.SSLContext:
        """The TLS context for the next connection."""
        return self._tls

    def _show(self, pair: Pair) -> None:
        self._pair = pair
        self._tls = self._certified()

    async def renew(self) -> None:
        """Read the authority anew."""
        try:
            found = await self._context.client.get(CONFIG_MAPS, AUTHORITY, SYSTEM)
            authority, self.problem = (found.get("data") or {}).get("client-ca-file", ""), ""
        except LiqodError as error:
            # The known one stays: a moment without the API server changes no authority.
            authority, self.problem = self._authority, f"{SYSTEM}/{AUTHORITY}: {error}"
        if not authority and not self.problem:
            self.problem = f"{SYSTEM}/{AUTHORITY} names no authority"
        if authority == self._authority:
            return
        self._authority = authority
        try:
            self._tls = self._certified()
        except (ssl.SSLError, ValueError) as error:
            self._authority = ""
            self.problem = f"{SYSTEM}/{AUTHORITY} has no certificates: {error}"
            self._tls = self._certified()

    def _certified(self) -> ssl.SSLContext:
        """A context with the present authorities; open connections keep theirs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0  # no session is resumed: each stream has a connection of its own
        if self._authority:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(cadata=self._authority)
        tls.load_chain(context, self._pair.certificate, self._pair.key)
        return context

    async def user(self, request: HttpRequest) -> AuthenticatedUser:
        """The user that sends a request.

        Raises:
            Unauthorized: none that the cluster accepts.
        """
        if request.peer_certificate is not None:
            return certified(request.peer_certificate)
        token = bearer_in(request.headers.get("authorization", ""))
        found = await user_of(self._context.client, token) if token else None
        if found is None:
            why = f" (client certificates: {self.problem})" if self.problem else ""
            raise Unauthorized(f"a virtual node answers its API server{why}")
        return found

    async def reader(self, request: HttpRequest) -> AuthenticatedUser:
        """The user of a request that only reads: a token accepted lately is not reviewed again."""
        token = bearer_in(request.headers.get("authorization", ""))
        if request.peer_certificate is not None or not token:
            return await self.user(request)
        key = ("token", hashlib.sha256(token.encode()).digest())
        known = self._remembered(key)
        return known if known is not None else self._remember(key, await self.user(request))

    async def check(self, user: AuthenticatedUser, node: str) -> None:
        """Check that a user may reach the pods of a node.

        Raises:
            Forbidden: the user may not.
        """
        if not await self._may(user, "create", "proxy", node):
            # No node is named: the existence and the place of a pod are not for all callers.
            raise Forbidden(f"{user.name} may not create nodes/proxy")

    async def check_reader(
        self, user: AuthenticatedUser, node: str, subresources: tuple[str, ...]
    ) -> None:
        """Check that a user may read a node's own pages.

        Args:
            user: the user.
            node: the requested node.
            subresources: of nodes, any of which will do.

        Raises:
            Forbidden: not so.
        """
        # The right to read all of them, as scrapers have it, is checked once for all.
        for name in dict.fromkeys(("", node)):
            for each in subresources:
                key = ("right", user.name, user.groups, user.uid, repr(user.extra), each, name)
                if self._remembered(key) is not None:
                    return
                if await self._may(user, "get", each, name):
                    self._remember(key, user)
                    return
        wanted = " or nodes/".join(subresources)
        raise Forbidden(f"{user.name} may not get nodes/{wanted}")

    async def _may(self, user: AuthenticatedUser, verb: str, subresource: str, node: str) -> bool:
        asked = {"verb": verb, "resource": "nodes", "subresource": subresource, "name": node}
        return await may(self._context.client, user, **asked)

    def _remembered(self, key: Hashable) -> AuthenticatedUser | None:
        until, user = self._kept.get(key, (0.0, None))
        return user if trio.current_time() < until else None

    def _remember(self, key: Hashable, user: AuthenticatedUser) -> AuthenticatedUser:
        self._kept.pop(key, None)
        self._kept[key] = (trio.current_time() + self._timings.readers_kept, user)
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return user


def certified(certificate: dict[str, Any]) -> AuthenticatedUser:
    """The user that a verified client certificate names.

    Args:
        certificate: as :meth:`ssl.SSLSocket.getpeercert` has it.

    Raises:
        Unauthorized: it names none.
    """
    subject = [part for names in certificate.get("subject", ()) for part in names]
    name = next((value for key, value in subject if key == "commonName"), "")
    if not name:
        raise Unauthorized("the certificate names no user")
    groups = tuple(value for key, value in subject if key == "organizationName")
    return AuthenticatedUser(name, (*groups, "system:authenticated"))
