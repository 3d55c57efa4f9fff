"""Notifications about the pods of a node, and their receivers."""

from typing import Any

import msgspec

from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.nodeindex import node_index
from liqod.kube.cache.store import Key, StoreChange


class FakeInformer(SharedInformer):
    def __init__(self) -> None:
        self.handlers: list[Any] = []

    def subscribe(self, handler, *, namespace=None):
        self.handlers.append(handler)
        return lambda: None

    def change(self, name, old, new):
        def body(node):
            return None if node is None else msgspec.json.encode({"spec": {"nodeName": node}})

        for handler in self.handlers:
            handler(StoreChange(("shop", name), body(old), body(new)))


def test_only_those_who_asked_for_a_node_are_told():
    informer = FakeInformer()
    placed = node_index(informer)
    heard: list[Key] = []
    end = placed.follow("milan", heard.append)
    informer.change("a", None, "")
    informer.change("a", "", "milan")
    informer.change("b", None, "worker")
    informer.change("a", "milan", "milan")
    assert heard == [("shop", "a"), ("shop", "a")]
    assert placed.on("milan") == {("shop", "a")}
    informer.change("a", "milan", None)
    assert placed.on("milan") == frozenset()
    assert heard == [("shop", "a")] * 3
    end()
    informer.change("c", None, "milan")
    assert heard == [("shop", "a")] * 3


def test_who_comes_later_is_told_what_is_there():
    informer = FakeInformer()
    placed = node_index(informer)
    informer.change("a", None, "milan")
    heard: list[Key] = []
    placed.follow("milan", heard.append)
    assert heard == [("shop", "a")]


def test_all_peers_share_one_look_at_each_change():
    informer = FakeInformer()
    assert node_index(informer) is node_index(informer)
    assert len(informer.handlers) == 1
