"""An embedded cluster: API server, scheduler, controllers and fake nodes in this process.

    async with EmbeddedCluster("rome", nodes=2, pod_cidr="10.1.0.0/16") as rome:
        credentials = rome.kubeconfig

It starts in a fraction of a second, costs a few hundred kB, and keeps its state while stopped, so
that a restarted API server on the same port is the same cluster.
"""

import base64
import os
import ssl
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

import msgspec
import trio
import yaml

from liqod.identity import certificates
from liqod.identity.certificates import Pair
from liqod.kube.http.httpserver import Limits, Open, serve
from simulator import bootstrap, builtins, controllers
from simulator.access.identities import MASTERS
from simulator.catalog import Catalog
from simulator.controllers import GRACE
from simulator.faults import Faults
from simulator.nodes.agent import NodeAgent
from simulator.nodes.planes import LocalPlane
from simulator.storage.registry import Registry
from simulator.storage.storage import HISTORY, Item, Storage
from simulator.wire.apiserver import ApiServer

Json = dict[str, Any]

RENEW = 15.0
"""Seconds between the renewals of nodes' Leases: idle clusters are to cost nothing."""
NO_CHECK_TIME = 0x200000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME: an expired client certificate is to get a 401, as from the
real server, not a failed handshake."""
BACKDATED = 30 * 24 * 3600.0
"""Seconds by which its own certificates begin in the past: tests have a time of their own, which is
ahead of the one that OpenSSL goes by, and one process has clusters of several such tests."""
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""Ten times as fast where PyYAML has it; each test writes a few kubeconfigs."""


class State(msgspec.Struct, frozen=True):
    """The state of a cluster: its keys and objects, as a backup, from which another one continues.

    Attributes:
        ca: its authority.
        server: what its API server shows.
        secret: signs the tokens of its ServiceAccounts.
        version: the resourceVersion that it had reached.
        contents: its objects by qualified resource.
    """

    ca: Pair
    server: Pair
    secret: bytes
    version: int
    contents: dict[str, tuple[Item, ...]]


class EmbeddedCluster:
    """One simulated cluster.

    Args:
        name: what its kubeconfig calls it.
        nodes: how many fake nodes it has.
        start_delay: seconds from a pod's binding to its being ready.
        pod_cidr: where pods' addresses come from.
        service_cidr: where cluster IPs come from.
        service_cidr6: where those of IPv6 do; empty in a cluster of one family.
        port: the port to listen on; 0 for any free one, then kept for restarts.
        history: changes kept per kind for watches that start in the past.
        lease_every: seconds between the renewals of its nodes' Leases.
        node_grace: seconds without a renewal after which a node is given up, and that pods stay
            bound to a node that is not there.
        open_listeners: what listens; tests have listeners without sockets.
        state: continue from there instead of as a new cluster.

    Attributes:
        registry: in-process access to its objects.
        agent: its fake nodes.
        faults: what goes wrong on purpose.
        ca: the authority of the cluster, certificate and key.
    """

    def __init__(
        self,
        name: str,
        *,
        nodes: int = 0,
        start_delay: float = 0.2,
        pod_cidr: str = "10.244.0.0/16",
        service_cidr: str = "10.96.0.0/16",
        service_cidr6: str = "",
        host: str = "127.0.0.1",
        port: int = 0,
        history: int = HISTORY,
        lease_every: float = RENEW,
        node_grace: float = GRACE,
        open_listeners: Open = trio.open_tcp_listeners,
        state: State | None = None,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.pod_cidr = pod_cidr
        self.service_cidr = service_cidr
        self.faults = Faults()
        self._open_listeners = open_listeners
        self._state = state
        begins = time.time() - BACKDATED
        self.ca = state.ca if state else certificates.make_ca(f"{name}-ca", now=begins)
        hosts = [host, "localhost", "kubernetes.default.svc", "kubernetes"]
        self._server_pair = (
            state.server if state else certificates.make_server(self.ca, hosts, now=begins)
        )
        self.registry = Registry(
            Storage(history),
            Catalog(builtins.ALL),
            service_cidr=service_cidr,
            service_cidr6=service_cidr6,
        )
        self.api = ApiServer(self.registry, self.faults, self._log)
        if state:
            self.api.authenticator.secret = state.secret
        self.manager = controllers.start(
            self.registry, self.api.admission, self.api.authorizer, self.ca, node_grace
        )
        controllers.Tokens(
            self.registry, self.manager, self.ca.certificate, self.api.authenticator.issue
        )
        self._context = _server_context(self.ca, self._server_pair)
        self._plane = LocalPlane(self.registry)
        self.agent = NodeAgent(
            self._plane,
            [f"{name}-node-{number}" for number in range(1, nodes + 1)],
            start_delay=start_delay,
            pod_cidr=pod_cidr,
            renew=lease_every,
        )
        self._stack = AsyncExitStack()
        self._nursery: trio.Nursery | None = None
        self._listening: trio.CancelScope | None = None
        self._stopped = trio.Event()
        self._populated = False

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return f"https://{self.host}:{self.port}"

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            self._nursery = await stack.enter_async_context(trio.open_nursery())
            await self.start()
            await self._nursery.start(self.manager.run)
            # A namespace made next has its ServiceAccount at once, not after all of these.
            await self.manager.caught_up.wait()
            if self.agent.names:
                self._plane.follow_pods(self.agent.notice)
                await self._nursery.start(self.agent.run)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        if self._nursery is not None:
            self._nursery.cancel_scope.cancel()
        try:
            return await self._stack.__aexit__(kind, error, trace)
        finally:
            self.api.admission.calls.forget()  # a call that was under way may have kept its own

    async def start(self) -> None:
        """Listen (again). State is what it was."""
        if self._nursery is None:
            raise RuntimeError("an embedded cluster is used as `async with EmbeddedCluster(…)`")
        if self._listening is not None:
            return
        self.port = await self._nursery.start(self._listen)
        if not self._populated:
            if self._state is not None:
                self.registry.storage.load(self._state.contents, self._state.version)
            else:
                bootstrap.populate(self.registry, self.port, self.ca.certificate)
            self._populated = True

    def save(self) -> State:
        """The cluster as it is now, without its nodes' memory."""
        storage = self.registry.storage
        contents = {name: tuple(storage.of(name).items()) for name in sorted(storage.names())}
        secret = self.api.authenticator.secret
        return State(self.ca, self._server_pair, secret, storage.version, contents)

    async def stop(self) -> None:
        """Stop the API server: connections are cut and new ones refused. Nodes go on."""
        if self._listening is not None:
            self._listening.cancel()
            await self._stopped.wait()

    async def restart(self) -> None:
        """Stop and start on the same port."""
        await self.stop()
        await self.start()

    async def _listen(self, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        self._stopped = trio.Event()
        try:
            with trio.CancelScope() as self._listening:
                await serve(
                    self.api.handle,
                    host=self.host,
                    port=self.port,
                    open_listeners=self._open_listeners,
                    ssl_context=self._context,
                    limits=Limits(),
                    gate=self.faults.gate,
                    task_status=task_status,
                )
        finally:
            self.api.admission.calls.forget()
            self._listening = None
            self._stopped.set()

    # Credentials:

    @property
    def kubeconfig(self) -> str:
        """The administrator's kubeconfig, YAML."""
        return self.kubeconfig_for("kubernetes-admin", (MASTERS,))

    def kubeconfig_for(self, user: str, groups: tuple[str, ...] = ()) -> str:
        """A kubeconfig with a client certificate of that user and those groups, YAML."""
        pair = certificates.make_client(self.ca, user, groups)
        client = {
            "client-certificate-data": _base64(pair.certificate),
            "client-key-data": _base64(pair.key),
        }
        return self._config(user, client)

    def kubeconfig_with_token(self, token: str, user: str = "token") -> str:
        """A kubeconfig with a bearer token, YAML."""
        return self._config(user, {"token": token})

    def _config(self, user: str, credentials: Json) -> str:
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": self.name,
                    "cluster": {
                        "server": self.server,
                        "certificate-authority-data": _base64(self.ca.certificate),
                    },
                }
            ],
            "users": [{"name": user, "user": credentials}],
            "contexts": [
                {
                    "name": self.name,
                    "context": {"cluster": self.name, "user": user, "namespace": "default"},
                }
            ],
            "current-context": self.name,
        }
        return yaml.dump(config, Dumper=_DUMPER, sort_keys=False)

    async def _log(self, pod: Item, container: str, follow: bool) -> AsyncIterator[bytes]:
        yield f"{container} of {pod.namespace}/{pod.name} has started\n".encode()
        pods = self.registry.storage.of("pods")
        while follow and pods.get(pod.namespace, pod.name) is not None:
            await pods.changed.wait()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _server_context(ca: Pair, server: Pair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # The ssl module reads certificate chains from files only.
    handle, path = tempfile.mkstemp(prefix="liqod-simulator-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(server.certificate + server.key)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
    context.load_verify_locations(cadata=ca.certificate.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VerifyFlags(NO_CHECK_TIME)
    context.num_tickets = 1  # each has the client's certificate in it; clients keep the last one
    return context
