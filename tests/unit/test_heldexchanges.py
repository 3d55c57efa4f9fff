"""The changes of an exchange from which something follows, and how often one is decoded."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from liqod.apimachinery import labels, rawobjects
from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.clusterset import heldexchanges
from liqod.clusterset.heldexchanges import HeldExchanges, decoded
from liqod.kube.cache.store import IndexedStore, StoreChange

TENANT = "liqo-tenant-milan"
ASKED, ANSWERED = "shop.milan", "shop.rome"


def exchange(version=1, name=ASKED, note="", **parts):
    """An exchange of rome's with milan as the store has it."""
    spec = {"namespace": "shop", "exports": {}, "confirmed": {}}
    status = {"shared": True, "exports": {}, "confirmed": {}}
    for side, found in (("spec", spec), ("status", status)):
        found.update({key: parts[f"{side}_{key}"] for key in found if f"{side}_{key}" in parts})
    metadata = {"name": name, "namespace": TENANT, "resourceVersion": str(version)}
    marks = {labels.REPLICATION: "true", labels.REMOTE_ID: "milan"}
    metadata |= {"annotations": {"note": note}, "labels": marks}
    return msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status})


@pytest.fixture
def store():
    return IndexedStore()


@pytest.fixture
def held(store):
    context = SimpleNamespace(cluster_id="rome")
    peer: Any = SimpleNamespace(id="milan", tenant_namespace=TENANT, context=context)
    watch: Any = SimpleNamespace(store=store)
    return HeldExchanges(peer, watch)


def change(old, new, name=ASKED):
    return StoreChange((TENANT, name), old, new)


def written(held, version, name=ASKED):
    """Note that this cluster has written an exchange."""
    meta = ObjectMeta(name=name, namespace=TENANT, resource_version=str(version))
    held.note(Partial(metadata=meta))


@pytest.mark.parametrize(("name", "own"), [(ASKED, "spec"), (ANSWERED, "status")])
def test_nothing_follows_from_what_this_cluster_has_written(held, name, own):
    before = exchange(1, name)
    after = exchange(2, name, note="new", **{f"{own}_exports": {"web": "1"}})
    assert held.news(change(before, after, name)) == (True, False)
    written(held, 2, name)
    assert held.news(change(before, after, name)) == (False, False)


@pytest.mark.parametrize(("name", "peer"), [(ASKED, "status"), (ANSWERED, "spec")])
def test_what_the_peer_tells_is_looked_at_also_with_the_own_last_word(held, name, peer):
    written(held, 2, name)
    after = exchange(2, name, **{f"{peer}_exports": {"web": "1"}})
    assert held.news(change(exchange(1, name), after, name)) == (True, True)


@pytest.mark.parametrize(("name", "peer"), [(ASKED, "status"), (ANSWERED, "spec")])
def test_what_the_peer_confirms_concerns_others_alone(held, store, name, peer):
    first, second = exchange(1, name), exchange(2, name, **{f"{peer}_confirmed": {"web": "m"}})
    store.put((TENANT, name), first)
    held.has_news("shop")
    store.put((TENANT, name), second)
    assert held.news(change(first, second, name)) == (False, True)
    assert not held.has_news("shop")


def test_a_confirmation_hides_no_news_that_was_not_looked_at(held, store):
    first, second = exchange(1), exchange(2, status_exports={"web": "1"})
    third = exchange(3, status_exports={"web": "1"}, status_confirmed={"api": "m"})
    store.put((TENANT, ASKED), first)
    held.has_news("shop")
    store.put((TENANT, ASKED), third)
    assert held.news(change(first, second)) == (True, True)
    assert held.news(change(second, third)) == (False, True)
    assert held.has_news("shop")


def test_what_comes_goes_or_is_changed_by_somebody_else_is_looked_at(held):
    assert held.news(change(None, exchange())) == (True, True)
    assert held.news(change(exchange(), None)) == (True, True)
    written(held, 2)
    assert held.news(change(exchange(2), exchange(3, note="theirs"))) == (True, False)


def test_that_the_peer_shares_the_namespace_no_more_is_looked_at(held):
    assert held.news(change(exchange(), exchange(2, status_shared=False))) == (True, True)


def test_an_exchange_is_decoded_once_for_all_who_look_at_it(held, store, monkeypatch):
    count = []
    before = rawobjects.decode_as

    def decode(told, kind):
        count.append(kind)
        return before(told, kind)

    monkeypatch.setattr(heldexchanges, "decode_as", decode)
    body = exchange(7, status_exports={f"s{number}": "1" for number in range(100)})
    store.put((TENANT, ASKED), body)
    for _ in range(100):
        assert len(held.told("shop")) == 100
        assert held.confirmed("shop") == [{}]
    assert len(count) == 1
    assert decoded(body) is decoded(body)
