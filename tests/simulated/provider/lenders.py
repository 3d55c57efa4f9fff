"""A provider in a process of its own: an embedded cluster, a daemon's components, a relay.

    python -m tests.simulated.provider.lenders milan FOLDER

So what a provider does, and what is done to it, costs the consumer's daemon nothing but what comes
over the wire. :class:`Lender` is the other end.
"""

import signal
import sys
from pathlib import Path

import trio

from liqod import install
from liqod.install import daemonkubeconfig
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.plugins import loader
from liqod.procedures import peeringusers
from simulator import EmbeddedCluster
from tests.simulated.members import Member
from tests.simulated.prepared import quiet
from tests.simulated.relaying import files
from tests.testbed import relay
from tests.testbed.api import wait_until
from tests.testbed.processes import Child
from tests.testbed.relays import Relay

CONSUMER = "rome"


class Lender:
    """One provider process. Owner calls `close`.

    Attributes:
        relay: of API requests, between it and its consumer.
        user: kubeconfig of a peering user for the consumer, through the relay.
        admin: kubeconfig of the administrator, past it.
    """

    def __init__(self, name: str, folder: Path) -> None:
        folder.mkdir()
        self.name = name
        self.user, self.admin = folder / "user.kubeconfig", folder / "admin.kubeconfig"
        command = [sys.executable, "-m", "tests.simulated.provider.lenders", name, str(folder)]
        self.child = Child(name, command, folder / "log", cwd=Path(__file__).parents[3])
        try:
            wait_until(f"provider {name}", self._ready, 40)
            self.relay = Relay(name, folder / "relay.sock", self.child)
        except BaseException:
            self.child.kill()
            raise

    def _ready(self) -> bool:
        self.child.check()
        return self.user.exists()

    def close(self) -> None:
        """End it at once."""
        self.child.signal(signal.SIGCONT)
        self.relay.close()


async def serve(name: str, folder: Path) -> None:
    """Be a provider until killed."""
    async with (
        EmbeddedCluster(name, nodes=4, start_delay=0.0) as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
        trio.open_nursery() as nursery,
    ):
        paths = {key: str(path) for key, path in vars(files(cluster, folder)).items()}
        standing = relay.Relay(relay.Settings(cluster.server, **paths))
        await nursery.start(standing.run)
        nursery.start_soon(relay.control, standing, str(folder / "relay.sock"))
        server = f"https://127.0.0.1:{standing.port}"
        await install.install(admin, install.Options(cluster_id=name), quiet)
        text = await daemonkubeconfig.daemon_kubeconfig(
            admin, from_kubeconfig(cluster.kubeconfig), "liqo", name, quiet
        )
        plugins = loader.load(sources=loader.built_in())
        components = Member(
            *(name, cluster, admin, from_kubeconfig(text), nursery),
            advertise=server,
            plugins=plugins,
        )
        await components.start()
        (folder / "admin.kubeconfig").write_text(cluster.kubeconfig)
        user = await peeringusers.generate(
            admin, CONSUMER, here=name, server=server, ca=cluster.ca.certificate
        )
        partial = folder / "user.new"
        partial.write_bytes(user)
        partial.rename(folder / "user.kubeconfig")
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(serve, sys.argv[1], Path(sys.argv[2]))
