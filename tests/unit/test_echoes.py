"""The changes that are this cluster's own writes, and those that only look so."""

import msgspec
import pytest

from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.clusterset import echoes
from liqod.clusterset.echoes import Echoes, version_of
from liqod.kube.cache.store import StoreChange


def body(version, uid="u1"):
    return msgspec.json.encode(
        {"metadata": {"name": "web", "uid": uid, "resourceVersion": version}}
    )


def written(version, uid="u1"):
    return Partial(metadata=ObjectMeta(name="web", uid=uid, resource_version=version))


def change(old, new):
    before, after = (body(each) if each else None for each in (old, new))
    return StoreChange(("shop", "web"), before, after)


def test_a_write_is_recognised_once():
    made = Echoes()
    made.note("1", written("2"))
    assert made.has(change("1", "2"))
    assert not made.has(change("1", "2"))


def test_each_of_two_writes_of_one_object_is_recognised():
    made = Echoes()
    made.note("1", written("2"))
    made.note("2", written("3"))
    assert made.has(change("1", "2"))
    assert made.has(change("2", "3"))


def test_one_that_is_created_is_recognised():
    made = Echoes()
    made.note(version_of(None), written("2"))
    assert made.has(change("", "2"))


@pytest.mark.parametrize(
    ("old", "new"),
    [("1", "3"), ("2", "4"), ("3", ""), ("", "3")],
    ids=["with", "after", "end", "new"],
)
def test_what_somebody_else_has_changed_is_not_taken_for_it(old, new):
    made = Echoes()
    made.note("2", written("3"))
    assert not made.has(change(old, new))


def test_nothing_is_noted_where_nothing_was_written():
    made = Echoes()
    made.note("1", None)
    assert not made.has(change("1", "1"))


def test_writes_that_are_never_reported_are_forgotten(monkeypatch):
    monkeypatch.setattr(echoes, "KEPT", 2)
    made = Echoes()
    for uid in ("a", "b", "c"):
        made.note("1", written("2", uid))
    seen = [StoreChange(("shop", "web"), body("1", uid), body("2", uid)) for uid in "abc"]
    assert [made.has(each) for each in seen] == [False, True, True]
