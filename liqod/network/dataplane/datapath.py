"""Peers' data paths in this machine's kernel: applied, watched, taken away, and swept.

A peer has a part of the node's namespace and one of its own (:mod:`.peerplan`). Both outlive the
daemon: the next one finds them, changes what differs, and no packet is lost meanwhile. Marks and
names in the kernel show the owner of each object, so that garbage of a crash or of a forgotten peer
is found without any file of ours.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import NoReturn, TypeVar

import trio

from liqod import netlink
from liqod.errors import NetworkError
from liqod.network.dataplane import names as called
from liqod.network.dataplane.kernel import capabilities, namespaces, nft, sysctls
from liqod.network.dataplane.kernel.apply import apply
from liqod.network.dataplane.kernel.kernelmonitor import Monitor, Touched, receive
from liqod.network.dataplane.names import PeerNames
from liqod.network.dataplane.peerplan import PeerPlan
from liqod.network.dataplane.values import KernelChange, Namespace, Owned
from liqod.plugins.network import rtnetlink

R = TypeVar("R")

SETTLED = 0.02
"""Seconds after a disturbance in which others of the same hand are waited for."""
ROUNDS = 3
"""Times that a peer's namespaces are gone through while a part in one changes the other."""
NOTHING = Namespace()


class KernelDatapath:
    """The kernel of this machine, or of a namespace in its place.

    Args:
        own_id: this cluster's id.
        node: name of the node's namespace; None for the one that this process is in.
    """

    def __init__(self, own_id: str, node: str | None = None) -> None:
        self._own_id = own_id
        self.node = node
        self._attended: dict[str, _Attended] = {}

    async def problem(self) -> str | None:
        """The reason why this machine can have no data paths; None for none."""
        try:
            # In a pod they are read-only at first; a host's are not.
            await trio.to_thread.run_sync(sysctls.unlock)
        except NetworkError as error:
            return str(error)
        return await capabilities.problem()

    async def within(self, namespace: str, function: Callable[[], R], /) -> R:
        """Call a blocking function in a thread that is in a namespace; empty for the node's.

        Raises:
            NetworkError: there is no such namespace, or the right is missing.
        """
        return await namespaces.inside(namespace or self.node, function)

    async def run(
        self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> NoReturn:
        """Observe changes in the node's namespace, for all peers, until cancelled.

        Raises:
            NetworkError: nothing can be observed.
        """
        try:
            await receive(self.node, self._publish, task_status)
        finally:
            self.close()

    def close(self) -> None:
        """Stop observing peers. The applied data paths stay."""
        for digits in list(self._attended):
            self._disregard(digits)

    def _publish(self, touched: Touched) -> None:
        for attended in self._attended.values():
            attended.node(touched)

    async def prepare(self, names: PeerNames, backend: str = "") -> None:
        """Have a peer's network namespace, in which its tunnel is to be.

        Args:
            backend: by which it is to be, which is recorded; empty where none is made now.

        Raises:
            NetworkError: it cannot be had, or is another daemon's.
        """
        made = await namespaces.make(names.namespace, names.mark)
        if made:
            # Of one before it, which somebody has deleted.
            self._disregard(names.hash)
        else:
            found = await namespaces.mark(names.namespace)
            if nft.is_anothers(found, names.mark):
                raise NetworkError(f"the network namespace {names.namespace} is of {found}")
        if backend:
            await namespaces.note_backend(names.namespace, backend)

    async def makers(self, names: PeerNames) -> frozenset[str] | None:
        """The backends by which a peer can have a tunnel; None where they are not known.

        Raises:
            NetworkError: the kernel cannot be asked.
        """
        return await namespaces.backends(names.namespace)

    async def apply(self, plan: PeerPlan) -> list[KernelChange]:
        """Apply the plan of a peer's links, routes, rules and filters; return the changes.

        Raises:
            NetworkError: the kernel refuses.
        """
        await self.prepare(plan.names)
        # Before anything is read: changes from then on are observed.
        await self._attend(plan.names)
        changes: list[KernelChange] = []
        for _ in range(ROUNDS):
            changes += await apply(self.node, plan.node, plan.node_owned)
            inside = await apply(plan.names.namespace, plan.inside, plan.inside_owned)
            changes += [each.within(plan.names.namespace) for each in inside]
            # A pair that was made from inside has an end in the node's namespace that is new.
            if KernelChange(f"link {called.INSIDE} made") not in inside:
                break
        return changes

    async def wait_disturbed(self, names: PeerNames) -> None:
        """Wait until a part of a peer's data path has changed since it was applied.

        Each call continues where the last one ended: no change between two is missed. So
        the first call after an application that changed something returns at once, for that.
        :meth:`run` has to run.

        Raises:
            NetworkError: nothing can be observed.
        """
        attended = await self._attend(names)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(attended.monitor.run, attended.inside)
                await attended.rung.wait()
                # Addresses and routes go with their link.
                await trio.sleep(SETTLED)
                attended.rung = trio.Event()
                nursery.cancel_scope.cancel()
        except* trio.ClosedResourceError:
            # The namespace was made anew or taken away, or the node is no longer observed.
            pass

    async def remove(self, names: PeerNames) -> list[str]:
        """Remove everything of a peer from this machine; return the removals.

        Raises:
            NetworkError: something does not go.
        """
        self._disregard(names.hash)
        owned = PeerPlan(names, NOTHING, NOTHING).node_owned
        changes = [each.text for each in await apply(self.node, NOTHING, owned)]
        # A tunnel that was never moved inside, and whose owner is gone.
        unmoved = partial(rtnetlink.delete, names.tunnel)
        if await namespaces.inside(self.node, unmoved):
            changes.append(f"link {names.tunnel} deleted")
        if await namespaces.delete(names.namespace):
            changes.append(f"network namespace {names.namespace} deleted")
        return changes

    async def leftovers(self, known: Collection[PeerNames]) -> list[PeerNames]:
        """Garbage of this cluster's unknown peers: of a crash, or of a forgotten one.

        Only objects with this cluster's mark are found, so that none of another daemon's on the
        same machine is.

        Raises:
            NetworkError: the kernel cannot be asked.
        """
        found = await _everywhere_marked(self.node)
        kept = {names.hash for names in known}
        prefix = called.marks_of(self._own_id)
        return [
            UnknownPeerNames(self._own_id, "", digits, mark)
            for digits, mark in sorted(found.items())
            if mark.startswith(prefix) and digits not in kept
        ]

    async def _attend(self, names: PeerNames) -> "_Attended":
        """The peer's monitor, which observes from its opening on, whether anybody waits or not."""
        attended = self._attended.get(names.hash)
        if attended is None:
            plan = PeerPlan(names, NOTHING, NOTHING)
            attended = _Attended(
                await Monitor.open(names.namespace), plan.node_owned, plan.inside_owned
            )
            self._attended[names.hash] = attended
        return attended

    def _disregard(self, digits: str) -> None:
        """An open monitor would keep the namespace alive, with all that is inside."""
        attended = self._attended.pop(digits, None)
        if attended is not None:
            attended.monitor.close()


class UnknownPeerNames(PeerNames, frozen=True):
    """Names of a peer, made from the digits and the mark that were found alone.

    Attributes:
        digits: the hash that is in all names.
        words: the mark that was found.
    """

    digits: str = ""
    words: str = ""

    @property
    def hash(self) -> str:
        """As it was found."""
        return self.digits

    @property
    def mark(self) -> str:
        """As it was found."""
        return self.words


class _Attended:
    """Observes one peer's two namespaces."""

    def __init__(self, monitor: Monitor, of_node: Owned, of_inside: Owned) -> None:
        self.monitor = monitor
        self.rung = trio.Event()
        self._of_node = of_node
        self._of_inside = of_inside

    def node(self, touched: Touched) -> None:
        """Something was changed in the node's namespace."""
        if touched.is_of(self._of_node):
            self.rung.set()

    def inside(self, touched: Touched) -> None:
        """Something was changed in the peer's namespace."""
        if touched.is_of(self._of_inside):
            self.rung.set()


async def owners() -> list[str]:
    """The ids of the clusters that have peers' networks on this machine, as far as marks have them.

    Raises:
        NetworkError: the kernel cannot be asked.
    """
    marks = (await _everywhere_marked(None)).values()
    return sorted({own for mark in marks if (own := called.owner_of(mark))})


async def _everywhere_marked(node: str | None) -> dict[str, str]:
    """Marks of peers' namespaces and in the node's, by the hash in the names of what has them."""
    found: dict[str, str] = {}
    for name in namespaces.names(called.NAMESPACE_PREFIX):
        with suppress(NetworkError):
            # One that is not a namespace, or is being deleted, has nothing inside.
            found[name.removeprefix(called.NAMESPACE_PREFIX)] = await namespaces.mark(name)
    return found | await namespaces.inside(node, _marked)


def _marked() -> dict[str, str]:
    """Marks in the node's namespace, by the hash in the names of what carries them."""
    found = {}
    with netlink.Netlink() as asking:
        for link in rtnetlink.every(asking):
            if link.name.startswith(called.VETH_PREFIX):
                found[link.name.removeprefix(called.VETH_PREFIX)] = link.alias
    for table, mark in nft.marks().items():
        _, _, name = table.partition(" ")
        if name.startswith(called.TABLE_PREFIX):
            found[name.removeprefix(called.TABLE_PREFIX)] = mark
    return found
