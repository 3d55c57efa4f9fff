"""One node's part of the overlay in its kernel: applied by difference, watched, taken away.

It outlives its maker, ``liqod run`` or ``liqod node``: the next one finds it by its mark and
changes what differs.
"""

from collections.abc import Callable
from functools import partial
from typing import NoReturn

import msgspec
import trio

from liqod.errors import NetworkError
from liqod.netlink import NETFILTER, Netlink
from liqod.network.dataplane import names, nftables, overlayplan
from liqod.network.dataplane.kernel import kernellinks, namespaces, nft, ruleset
from liqod.network.dataplane.kernel.apply import apply, change
from liqod.network.dataplane.kernel.kernelmonitor import Touched, receive
from liqod.network.dataplane.values import Namespace, Owned
from liqod.network.overlay import ping
from liqod.network.overlay.ping import PingResult
from liqod.plugins.network import rtnetlink

SETTLED = 0.02
"""Seconds after a disturbance in which others of the same hand are waited for."""
NOTHING = Namespace()
MARK = "liqod "
"""How the marks of all of liqod's begin."""


class NodeKernel:
    """The kernel of a node.

    Args:
        namespace: name of the network namespace; None for the one that this process is in.
    """

    def __init__(self, namespace: str | None = None) -> None:
        self._namespace = namespace
        self._owned: Owned | None = None
        self._disturbed = trio.Event()

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Observe changes by others, until cancelled.

        Raises:
            NetworkError: nothing can be observed.
        """
        await receive(self._namespace, self._publish, task_status)

    def _publish(self, touched: Touched) -> None:
        if self._owned is not None and touched.is_of(self._owned):
            self._disturbed.set()

    async def wait_disturbed(self) -> None:
        """Wait until something of the overlay's has changed since it was applied, by whomever.

        A change between two calls is not missed, so that the first one after an application that
        changed something returns at once, for that. :meth:`run` has to run.
        """
        await self._disturbed.wait()
        # One who takes a link away takes its addresses and routes along.
        await trio.sleep(SETTLED)
        self._disturbed = trio.Event()

    async def apply(self, cluster: str, plan: Namespace) -> list[str]:
        """Make the overlay match the plan; the changes, a line each.

        Args:
            cluster: this cluster's id.
            plan: of :func:`liqod.network.dataplane.overlayplan.plan`.

        Raises:
            NetworkError: a part is somebody else's, or the kernel refuses it.
            ValueError: an address or a prefix is none.
        """
        # Before anything is read: later changes are notified.
        self._owned = overlayplan.owned(cluster)
        return [each.text for each in await apply(self._namespace, plan, self._owned)]

    async def remove(self, cluster: str = "") -> list[str]:
        """Remove everything of the overlay; the removed parts.

        Args:
            cluster: the owner; empty for any cluster.

        Raises:
            NetworkError: something does not go.
        """
        self._owned = None
        return await namespaces.inside(self._namespace, partial(_remove, cluster))

    async def mtu(self, address: str) -> int:
        """The MTU of the interface that has an address, in bytes.

        Raises:
            NetworkError: none has it.
        """
        return await namespaces.inside(self._namespace, partial(_mtu, address))

    async def ping(self, address: str, heard: Callable[[PingResult], None]) -> NoReturn:
        """Probe an address of the overlay until cancelled."""
        family = 6 if ":" in address else 4
        made = await namespaces.inside(self._namespace, partial(ping.open_socket, family))
        if made is None:
            heard(PingResult(False, "it is not known: an echo needs CAP_NET_RAW"))
            await trio.sleep_forever()
        await ping.ping(made, address, heard)

    async def dropped(self) -> dict[str, int]:
        """Packets that were dropped since the table was written, by the counter's name.

        Raises:
            NetworkError: the kernel cannot be queried.
        """
        return await namespaces.inside(self._namespace, _dropped)


def _dropped() -> dict[str, int]:
    with Netlink(NETFILTER) as netlink:
        return {
            name: ruleset.counter(netlink, names.OVERLAY_TABLE, name)[0]
            for name in nftables.OVERLAY_COUNTERS
        }


def _remove(cluster: str) -> list[str]:
    found: list[str] = []
    with Netlink() as netlink:
        link = rtnetlink.find_by(netlink, names.OVERLAY)
        if link is not None and link.kind == "vxlan" and not link.alias:
            # Made by a process that was killed before it could mark the owner.
            kernellinks.delete(netlink, link.index)
            found.append(f"link {names.OVERLAY} deleted")
    there = {nft.marks().get(names.OVERLAY_TABLE, ""), link.alias if link is not None else ""}
    owned = overlayplan.owned(cluster)
    # Routes and rules have no mark: they are the overlay's whose device or table is here.
    for mark in sorted(there & {owned.mark} if cluster else there):
        if mark.startswith(MARK):
            gone = change(NOTHING, msgspec.structs.replace(owned, mark=mark))
            found += [each.text for each in gone]
    return found


def _mtu(address: str) -> int:
    with Netlink() as netlink:
        for link in rtnetlink.every(netlink):
            for each in kernellinks.addresses(netlink, link):
                if each.prefix.partition("/")[0] == address:
                    return link.mtu
    raise NetworkError(f"no interface of this machine has the address {address}")
