"""The peer's part in a change of an exchange."""

import msgspec
import pytest

from liqod.clusterset.toldexports import Confirmations, news
from liqod.kube.cache.store import StoreChange

WEB, API = ("shop", "web"), ("shop", "api")


def exchange(**parts):
    """An exchange as the store has it, of what each side tells and confirms."""
    spec = {"namespace": "shop", "exports": {}, "confirmed": {}}
    status = {"shared": True, "exports": {}, "confirmed": {}}
    for side, found in (("asked", spec), ("answered", status)):
        found.update({key: parts[f"{side}_{key}"] for key in found if f"{side}_{key}" in parts})
    metadata = {"name": "shop.milan"}  # of which the namespace counts here
    return msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status})


def seen(old, new, name="shop.milan"):
    """The news of a change, for rome; milan is the provider of an exchange of this name."""
    return news(StoreChange(("liqo-tenant-milan", name), old, new), "rome")


@pytest.mark.parametrize(("name", "own"), [("shop.milan", "asked"), ("shop.rome", "answered")])
def test_what_this_cluster_tells_is_no_news_from_the_peer(name, own):
    told = {f"{own}_exports": {"web": "1"}, f"{own}_confirmed": {"api": "m"}}
    assert seen(exchange(), exchange(**told), name) == (set(), {}, True)


@pytest.mark.parametrize(("name", "peer"), [("shop.milan", "answered"), ("shop.rome", "asked")])
def test_what_the_peer_tells_concerns_the_exports_that_differ(name, peer):
    old = exchange(**{f"{peer}_exports": {"web": "1", "api": "1"}})
    new = exchange(**{f"{peer}_exports": {"web": "2", "api": "1"}})
    assert seen(old, new, name) == ({WEB}, {}, False)


@pytest.mark.parametrize(("name", "peer"), [("shop.milan", "answered"), ("shop.rome", "asked")])
def test_what_the_peer_confirms_is_named_and_what_it_takes_back_is_not(name, peer):
    old = exchange(**{f"{peer}_confirmed": {"api": "m"}})
    new = exchange(**{f"{peer}_confirmed": {"web": "m"}})
    assert seen(old, new, name) == ({WEB, API}, {WEB: "m"}, False)
    both = exchange(**{f"{peer}_confirmed": {"web": "m"}, f"{peer}_exports": {"web": "1"}})
    assert seen(exchange(), both, name) == ({WEB}, {}, False)


def test_that_the_peer_shares_the_namespace_concerns_all_exports_to_it():
    told = {"asked_exports": {"web": "1"}, "answered_confirmed": {"web": "m"}}
    old, new = exchange(**told, answered_shared=False), exchange(**told)
    assert seen(old, new) == ({WEB}, {}, False)
    assert seen(old, new, "shop.rome") == (set(), {}, False)


def test_a_change_of_something_else_is_not_this_clusters_word():
    assert seen(exchange(), exchange()) == (set(), {}, False)
    told = exchange(asked_exports={"web": "1"}, answered_exports={"web": "1"})
    assert seen(None, told) == ({WEB}, {}, False)
    assert seen(told, None) == ({WEB}, {}, False)


def test_a_peer_confirms_each_export_as_it_is_once():
    own = {WEB: "m", API: "n"}
    found = Confirmations(lambda key, word: own.get(key) == word)
    assert found.new("milan", {WEB: "m", API: "other"}) == {WEB}
    assert found.new("milan", {WEB: "m", API: "n"}) == {API}
    assert found.new("turin", {WEB: "m"}) == {WEB}
    assert found.new("milan", {WEB: "m", API: "n"}) == set()
    own[WEB] = "k"
    assert found.new("milan", {WEB: "k"}) == {WEB}
    found.forget(API)
    assert found.new("milan", {API: "n"}) == {API}
