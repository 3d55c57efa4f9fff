"""One cluster of the world, its administrator, and its daemons."""

import trio

from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.http.httpserver import serve
from simulator import EmbeddedCluster
from simulator.access.identities import AUTHENTICATED, MASTERS, User
from simulator.nodes.planes import LocalPlane
from tests.stateful.mischief import Mischief
from tests.stateful.network import PORT, Network
from tests.stateful.process import Process

ADMIN = "kubernetes-admin"


class Site:
    """One cluster.

    Attributes:
        admin: a client of its administrator.
        hand: its objects, as its people change them whatever the API server suffers.
        token: the daemon's.
        paired: whether two daemons run beside it, of which one leads.
        elects: whether a daemon leads only while it holds the Lease, also where it is alone.
        inspected: whether daemons have an inspector, which looks all the time.
        crashes: errors that ended a daemon and are not the project's own.
        mischief: what becomes of answers.
    """

    def __init__(self, name: str, network: Network) -> None:
        self.name = name
        self.network = network
        self.token: str | None = None
        self.paired = False
        self.elects = False
        self.inspected = False
        self.crashes: list[BaseException] = []
        self.mischief = Mischief()
        self._processes: list[Process] = []
        self._killed: list[Process] = []
        self._lives = 0
        self._listening: trio.CancelScope | None = None

    async def use(self, cluster: EmbeddedCluster, nursery: trio.Nursery) -> None:
        """Have this cluster, in place of another one of the same name.

        A client with a token is spared TLS, which is half of the cost of a connection: the daemon
        that lives beside its API server, and the administrator.
        """
        self.cluster = cluster
        self._listening = None
        self.hand = LocalPlane(cluster.registry)
        cluster.api.authenticator.tokens[ADMIN] = User(ADMIN, (MASTERS, AUTHENTICATED))
        self.admin = Client(self.beside(ADMIN), dial=self.network.dialer("hand"))
        await self.answer(nursery)

    async def answer(self, nursery: trio.Nursery) -> None:
        """Have the API server listen (again)."""
        if self._listening is None:
            self._listening = trio.CancelScope()
            await nursery.start(self._serve, self._listening)
        await self.cluster.start()

    async def refuse(self) -> None:
        """Have it stopped: connections are cut and new ones refused."""
        if self._listening is not None:
            self._listening.cancel()
            self._listening = None
        await self.cluster.stop()

    async def _serve(self, scope: trio.CancelScope, *, task_status: trio.TaskStatus[int]) -> None:
        with scope:
            await serve(
                self.cluster.api.handle,
                host=f"{self.name}.beside",
                port=PORT,
                open_listeners=self.network.listen,
                gate=self.cluster.faults.gate,
                task_status=task_status,
            )

    def beside(self, token: str | None) -> Credentials:
        """Returns the credentials of a client that lives beside the API server."""
        return Credentials(server=f"http://{self.name}.beside:{PORT}", token=token)

    @property
    def processes(self) -> tuple[Process, ...]:
        """The daemons that run, the one that leads first."""
        return tuple(sorted(self._processes, key=lambda each: not each.leads))

    @property
    def leader(self) -> Process | None:
        """The daemon that does the work."""
        return next((each for each in self._processes if each.leads), None)

    @property
    def tasks(self) -> int:
        """How many tasks the work of the leader has."""
        return 0 if self.leader is None else self.leader.tasks

    async def start(self, nursery: trio.Nursery) -> None:
        """Start what does not run."""
        await self.gone()
        while len(self._processes) < 1 + self.paired:
            self._lives += 1
            process = Process(self, f"{self.name}#{self._lives}", elects=self.paired or self.elects)
            self._processes.append(process)
            nursery.start_soon(process.run)

    async def pair(self, nursery: trio.Nursery) -> None:
        """Have two daemons from now on."""
        if not self.paired:
            self.kill()
            self.paired = True
        await self.start(nursery)

    def kill(self) -> None:
        """End every daemon here and now."""
        for process in list(self._processes):
            self._kill(process)

    def kill_one(self) -> None:
        """End the daemon that does the work, or else one that there is."""
        found = self.leader or next(iter(self._processes), None)
        if found is not None:
            self._kill(found)

    def isolate(self) -> None:
        """Cut the leader off from its API server, which the other daemon still reaches."""
        if self.leader is not None:
            self.network.part(self.leader.name, f"{self.name}.beside")

    def _kill(self, process: Process) -> None:
        """Nothing that it does while it falls reaches anybody."""
        self._processes.remove(process)
        self._killed.append(process)
        self.network.kill(process.name)
        process.scope.cancel()

    async def gone(self) -> None:
        """Wait until killed daemons have ended."""
        for process in self._killed:
            await process.ended.wait()
        self._killed = [each for each in self._killed if not each.ended.is_set()]
