"""Who may ask a virtual node for its pods: what a kubelet asks of those who call it.

A caller shows a client certificate of the authority that the API server trusts itself, or a bearer
token that the API server knows. Then, for streams, it must be allowed to ``create`` ``nodes/proxy``
of that node: with a kubelet, ``get`` is enough to run commands by WebSocket; here it is not. For
what a node says of itself it must be allowed to ``get`` that alone, such as ``nodes/metrics``.
"""

import ssl
from typing import Any, Final

from liqod.consumer.nodes.serving import Serving
from liqod.context import ClusterContext
from liqod.errors import Forbidden, LiqodError, Unauthorized
from liqod.identity.certificates import Pair
from liqod.kube.http import tls
from liqod.kube.http.server import Request
from liqod.kube.kinds import CONFIG_MAPS
from liqod.kube.reviews import User, bearer_in, may, user_of

AUTHORITY: Final = "extension-apiserver-authentication"
"""ConfigMap in which an API server shows which authority's client certificates it trusts."""
SYSTEM: Final = "kube-system"
STREAMS: Final = ("proxy",)
"""Sub-resources of nodes by which one reaches into pods."""


class Access:
    """Who calls, and what they may.

    Args:
        home: this cluster.

    Attributes:
        problem: why no client certificate is accepted; empty where they are.
        serving: keeps the certificate that is shown.
    """

    def __init__(self, home: ClusterContext) -> None:
        self._home = home
        self._authority = self.problem = ""
        self.serving = Serving(home, self._show)

    def context(self) -> ssl.SSLContext:
        """What the next connection is secured with."""
        return self._context

    def _show(self, pair: Pair) -> None:
        self._pair = pair
        self._context = self._certified()

    async def renew(self) -> None:
        """Read the authority anew."""
        try:
            found = await self._home.client.get(CONFIG_MAPS, AUTHORITY, SYSTEM)
            authority, self.problem = (found.get("data") or {}).get("client-ca-file", ""), ""
        except LiqodError as error:
            # The one that is known stays: a moment without the API server changes no authority.
            authority, self.problem = self._authority, f"{SYSTEM}/{AUTHORITY}: {error}"
        if not authority and not self.problem:
            self.problem = f"{SYSTEM}/{AUTHORITY} names no authority"
        if authority == self._authority:
            return
        self._authority = authority
        try:
            self._context = self._certified()
        except (ssl.SSLError, ValueError) as error:
            self._authority = ""
            self.problem = f"{SYSTEM}/{AUTHORITY} has no certificates: {error}"
            self._context = self._certified()

    def _certified(self) -> ssl.SSLContext:
        """A context with what is known now; open connections keep theirs."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.num_tickets = 0  # nobody comes twice: each stream has a connection of its own
        if self._authority:
            context.verify_mode = ssl.CERT_OPTIONAL
            context.load_verify_locations(cadata=self._authority)
        tls.load_chain(context, self._pair.certificate, self._pair.key)
        return context

    async def user(self, request: Request) -> User:
        """Who sends a request.

        Raises:
            Unauthorized: nobody that the cluster knows.
            LiqodError: the API server could not be asked.
        """
        if request.peer_certificate is not None:
            return certified(request.peer_certificate)
        token = bearer_in(request.headers.get("authorization", ""))
        found = await user_of(self._home.client, token) if token else None
        if found is None:
            why = f" (client certificates: {self.problem})" if self.problem else ""
            raise Unauthorized(f"a virtual node answers its API server{why}")
        return found

    async def check(
        self,
        user: User,
        node: str,
        *,
        verb: str = "create",
        subresources: tuple[str, ...] = STREAMS,
    ) -> None:
        """See that somebody may reach the pods of a node, or read what it says of itself.

        Args:
            user: who asks.
            node: which node is asked for; empty asks for a right to all nodes.
            verb: of the right.
            subresources: of nodes, any of which will do.

        Raises:
            Forbidden: not so.
            LiqodError: the API server could not be asked.
        """
        for each in subresources:
            asked = {"verb": verb, "resource": "nodes", "subresource": each, "name": node}
            if await may(self._home.client, user, **asked):
                return
        # No node is named: whether a pod exists, and where it is, is not for everybody.
        wanted = " or nodes/".join(subresources)
        raise Forbidden(f"{user.name} may not {verb} nodes/{wanted}")


def certified(certificate: dict[str, Any]) -> User:
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
    return User(name, (*groups, "system:authenticated"))
