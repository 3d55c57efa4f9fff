"""The networks of this cluster's nodes."""

from typing import Any

import msgspec
import trio
import trio.testing

from liqod.cluster.ownnetworks import own_networks
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.store import StoreChange


class FakeInformer(SharedInformer):
    def __init__(self) -> None:
        self.handlers: list[Any] = []

    def subscribe(self, handler, *, namespace=None):
        self.handlers.append(handler)
        return lambda: None

    def change(self, name, new):
        body = None if new is None else msgspec.json.encode(new)
        for handler in self.handlers:
            handler(StoreChange(("", name), None, body))


def node(address, *networks, **labels):
    return {
        "metadata": {"labels": labels},
        "spec": {"podCIDR": networks[0], "podCIDRs": list(networks)} if networks else {},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]},
    }


async def test_nodes_that_come_and_go_bring_and_take_their_networks(nursery):
    informer = FakeInformer()
    found = own_networks(informer)
    assert own_networks(informer) is found
    heard: list[int] = []

    async def listen() -> None:
        while True:
            await found.changed()
            heard.append(1)

    async def happens(name: str, new: Any) -> None:
        informer.change(name, new)
        await trio.testing.wait_all_tasks_blocked()

    nursery.start_soon(listen)
    await trio.testing.wait_all_tasks_blocked()
    await happens("a", node("192.0.2.1", "10.244.0.0/24", "fd00::/64"))
    await happens("b", node("192.0.2.2", "10.244.1.0/24"))
    await happens("b", node("192.0.2.2", "10.244.1.0/24"))
    assert found.addresses == {"192.0.2.1", "192.0.2.2"}
    assert found.pod_cidrs == {"10.244.0.0/24", "fd00::/64", "10.244.1.0/24"}
    assert len(heard) == 2
    await happens("a", None)
    assert found.addresses == {"192.0.2.2"}
    assert found.pod_cidrs == {"10.244.1.0/24"}
    await happens("b", None)
    assert len(heard) == 4
    assert (found.addresses, found.pod_cidrs) == (frozenset(), frozenset())


def test_a_virtual_node_has_no_address_of_its_own():
    informer = FakeInformer()
    found = own_networks(informer)
    mark = {"liqo.io/type": "virtual-node"}
    informer.change("milan", node("127.0.0.1", "10.244.9.0/24", **mark))
    informer.change("odd", {"status": {"addresses": "nonsense"}})
    assert found.addresses == frozenset()
    assert found.pod_cidrs == {"10.244.9.0/24"}
