"""Keeps a node's part of the overlay, and publishes its state: the work of ``liqod node``.

It reads two objects, its own InternalNode and the InternalFabric, and writes the status of the
first. Nothing ends with it: what it has applied goes when both the API server reports that one
is gone, and that its kind is still defined. On the gateway's node it does nothing: the machine's
side sets up that node, as the daemon orders.
"""

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Final, NoReturn, Protocol

import msgspec
import trio

from liqod.apimachinery.meta import Partial
from liqod.errors import LiqodError, NetworkError
from liqod.kube import times
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.controller import Controller, ControllerHost
from liqod.kube.selection import Selection
from liqod.kube.watched import DOUBT, Watched
from liqod.model.objects import conditions
from liqod.model.objects.patches import exact_patch
from liqod.network.dataplane import overlayplan
from liqod.network.dataplane.families import families
from liqod.network.dataplane.overlayplan import OverlayNode
from liqod.network.overlay.checked import CheckedOverlay, believe
from liqod.network.overlay.kernel import NodeKernel
from liqod.network.overlay.ping import PingResult
from liqod.resources.fabric import (
    APPLIED,
    FABRIC,
    INTERNAL_FABRICS,
    INTERNAL_NODES,
    REACHABLE,
    InternalFabric,
    InternalNode,
)
from liqod.runtime.observable import Notifier

NODE: Final = "node"
"""The one key."""
DIALLED: Final = 15.0
"""Seconds for a daemon on this machine to order what it wants of a program that has just begun."""
RETRY: Final = 5.0
"""Seconds until a change that the kernel refuses is tried again."""
READ_EVERY: Final = 60.0
"""Seconds between looks for dropped packets; a change is reported."""

log = logging.getLogger(__name__)


class GatewayTunnels(Protocol):
    """The tunnels of a program that may be the gateway's."""

    @property
    def ordered(self) -> bool:
        """True if a daemon has ordered tunnels of this program, which ends them by itself."""

    def see_gateway(self, elsewhere: bool) -> None:
        """Take note whether the gateway surely is another node."""

    async def end_left(self, cluster: str) -> list[str]:
        """End what an earlier program left of a cluster's tunnels; the removed parts.

        Raises:
            LiqodError: something does not go; what did is gone.
        """


class NodeAgent(Controller[str]):
    """Keeps one node's part of the overlay; there is one key.

    Args:
        host: shares informers and is notified of failures.
        client: with the node's own identity.
        name: of the Node.
        namespace: liqod's own, in which the InternalFabric is.
        kernel: of the node.
        api_servers: gives the addresses at which this node reaches its API server.
        report: notified of its present work, for people, and whether it has applied all there is.
        tunnels: those of this program.
        reserved: ranges that no peer's alias may overlap on this node, by its own configuration.

    Attributes:
        settled: whether it has applied all there is, or there is nothing to apply.
        pinged: the state of the path to the gateway; None while unknown.
        dropped: packets that were dropped, as last read, by the counter's name.
    """

    def __init__(
        self,
        host: ControllerHost,
        client: Client,
        name: str,
        namespace: str,
        kernel: NodeKernel,
        api_servers: Callable[[], Awaitable[tuple[str, ...]]],
        report: Callable[[str, bool], None],
        tunnels: GatewayTunnels,
        reserved: tuple[str, ...] = (),
    ) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._kernel = kernel
        self._api_servers, self._reserved = api_servers, reserved
        self._report, self._tunnels = report, tunnels
        self._may_end = trio.current_time() + DIALLED
        self._tunnels_left = True
        """True while there may be something of an earlier program's tunnels here."""
        self._generations: dict[str, int] = {}
        self._left = True
        """True while there may be something of the overlay's in the kernel."""
        self._target: OverlayNode | None = None
        self._aimed = Notifier()
        self.pinged: PingResult | None = None
        self.dropped: dict[str, int] = {}
        self._state = ""
        self.settled = False
        self._node = Watched(
            INTERNAL_NODES, self._changed, Selection(fields=f"metadata.name={name}")
        )
        self._fabric = Watched(INTERNAL_FABRICS, self._changed, Selection(namespace))
        super().__init__(
            host,
            "network",
            self._node,
            self._fabric,
            name=NODE,
            first=(NODE,),  # what was applied before has to go where there is nothing any more
            tasks=(self._heal, self._watch),
        )

    def _changed(self, change: StoreChange) -> Iterator[str]:
        """Another generation: what this node itself has written is nothing new."""
        meta = None
        if change.new is not None:
            meta = msgspec.json.decode(change.new, type=Partial).metadata
        place = "/".join(change.key)
        found = (meta.generation or 0) if meta is not None else -1
        if self._generations.get(place) != found or (change.old is None) != (change.new is None):
            self._generations[place] = found
            yield NODE

    async def _heal(self) -> NoReturn:
        await self.whenever(self._kernel.wait_disturbed, lambda: (NODE,))

    async def reconcile(self, key: str) -> float | None:
        """Make the kernel match both objects, and report it."""
        node = self._node.store.decode(("", self._name), InternalNode)
        fabric = self._fabric.store.decode((self._namespace, FABRIC), InternalFabric)
        gateway = fabric.spec.gateway.node if fabric is not None and fabric.spec else ""
        # A name that no InternalNode has may be a mistake: nothing follows from it.
        self._tunnels.see_gateway(node is not None and gateway not in ("", self._name))
        if node is None or fabric is None or node.spec is None or fabric.spec is None:
            return await self._remove(node, fabric)
        if fabric.spec.gateway.node == self._name:
            self._stand_back()
            return None
        try:
            kept = (await self._api_servers(), self._reserved)
            found = believe(self._name, node.spec, fabric.spec, *kept)
        except ValueError as error:
            # What is there stays: it was sound.
            await self._refuse(node, fabric, "Refused", str(error))
            return None
        plan = overlayplan.plan(found.me, found.gateway, (), found.overlay)
        self._left = True
        try:
            for line in await self._kernel.apply(fabric.spec.cluster, plan):
                log.info("%s", line)
        except NetworkError as error:
            await self._refuse(node, fabric, "NotApplied", str(error))
            return RETRY
        self._aim(found)
        self._become(f"node of the gateway {found.gateway.name}", settled=True)
        if found.refused:
            await self._refuse(node, fabric, "AliasRefused", "; ".join(found.refused))
        else:
            await self._write_condition(node, fabric, "True", APPLIED, "all of it is applied")
        await self._without_tunnels(fabric.spec.cluster)
        return RETRY if self._tunnels_left else None

    async def _without_tunnels(self, cluster: str) -> None:
        """End what an earlier program left of tunnels here, unless a daemon orders this one.

        Two machines that have the keys of the same tunnels would take each other's packets, and
        rules of the gateway's come before those that lead to another one.
        """
        if self._tunnels.ordered:
            self._tunnels_left = False
        if not self._tunnels_left or trio.current_time() < self._may_end:
            return
        try:
            for line in await self._tunnels.end_left(cluster):
                log.info("of the gateway that this node was: %s", line)
            self._tunnels_left = False
        except LiqodError as error:
            log.info("%s", error)

    async def _remove(
        self, node: InternalNode | None, fabric: InternalFabric | None
    ) -> float | None:
        """Have nothing of the overlay, where one of both surely is gone."""
        if self._left:
            gone = (node is None and await self._node.surely_gone(("", self._name))) or (
                fabric is None and await self._fabric.surely_gone((self._namespace, FABRIC))
            )
            if not gone:
                return DOUBT
            for line in await self._kernel.remove():
                log.info("%s", line)
            self._left = False
        self._aim(None)
        self._become("there is no overlay", settled=True)
        if node is not None and node.status.conditions:
            await self._write_condition(
                node, fabric, "False", "Removed", "there is no overlay: all was removed"
            )
        return None

    def _stand_back(self) -> None:
        self._aim(None)
        self._left = True
        self._become("this is the gateway: its daemon sets it up", settled=True)

    def _become(self, state: str, *, settled: bool) -> None:
        self.settled = settled
        if state != self._state:
            self._state = state
            log.info("%s", state)
            self._report(state, settled)

    async def _refuse(
        self, node: InternalNode, fabric: InternalFabric, reason: str, why: str
    ) -> None:
        self._become(f"not as wanted: {why}", settled=False)
        await self._write_condition(node, fabric, "False", reason, why)

    async def _write_condition(
        self,
        node: InternalNode,
        fabric: InternalFabric | None,
        status: str,
        reason: str,
        message: str,
    ) -> None:
        """Write the status where anything but the latency differs from it."""
        told = [_condition(APPLIED, status, reason, message)]
        pinged = self.pinged
        if pinged is not None and self._target is not None:
            word = "True" if pinged.reached else "False"
            reason = "Answers" if pinged.reached else "Silent"
            told.append(_condition(REACHABLE, word, reason, pinged.why))
        live: dict[str, Any] = msgspec.to_builtins(node.status)
        wanted: dict[str, Any] = {
            "observedGeneration": node.metadata.generation,
            "fabricGeneration": fabric.metadata.generation if fabric is not None else 0,
            "conditions": [
                conditions.dated(each, live.get("conditions"), times.now()) for each in told
            ],
            "dropped": {name: count for name, count in self.dropped.items() if count},
        }
        wanted = {key: value for key, value in wanted.items() if value}
        latency = live.get("latency")
        if exact_patch(live, {**wanted, "latency": latency}) and pinged and pinged.latency:
            latency = f"{pinged.latency * 1000:.2f}ms"
        patch = exact_patch(live, {**wanted, "latency": latency})
        if patch:
            where = (INTERNAL_NODES, self._name, {"status": patch})
            await self._client.patch(*where, subresource="status")

    def _aim(self, found: CheckedOverlay | None) -> None:
        target = found.gateway if found is not None else None
        if target != self._target:
            self._target, self.pinged = target, None
            self._family = families(*found.overlay.pods)[0] if found is not None else 4
            self._aimed.notify()

    async def _watch(self) -> NoReturn:
        """Ping the gateway over the overlay, and report when it turns."""
        while True:
            aimed, target = self._aimed.coming, self._target
            async with trio.open_nursery() as nursery:
                if target is not None:
                    where = target.inner(self._family)
                    nursery.start_soon(self._ping, where)
                    nursery.start_soon(self._count)
                await aimed.wait()
                nursery.cancel_scope.cancel()

    async def _ping(self, where: str) -> None:
        """Pings an address again and again; an error blocks nothing that is applied."""
        while True:
            try:
                await self._kernel.ping(where, self._on_ping)
            except (NetworkError, OSError) as error:
                self._on_ping(PingResult(False, f"it cannot be asked: {error}"))
            await trio.sleep(READ_EVERY)

    def _on_ping(self, pinged: PingResult) -> None:
        turned = self.pinged is None or self.pinged.reached != pinged.reached
        self.pinged = pinged
        if turned:
            self.queue.add(NODE)

    async def _count(self) -> NoReturn:
        while True:
            try:
                found = await self._kernel.dropped()
            except NetworkError as error:
                log.info("packets that were dropped are not known: %s", error)
                found = self.dropped
            if found != self.dropped:
                self.dropped = found
                self.queue.add(NODE)
            await trio.sleep(READ_EVERY)


def _condition(type_: str, status: str, reason: str, message: str) -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message[:1024]}
