"""Steps for one reflected object there: create, update, delete, wait."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.apimachinery.kinds import CONFIG_MAPS, PODS, SERVICES
from liqod.apimachinery.meta import Partial
from liqod.model.objects.patches import merged
from liqod.plugins.contracts import RemoteKind, Write
from liqod.reflection import ownership
from liqod.reflection.ownership import WriteAction

MERGE = RemoteKind(kind=CONFIG_MAPS)
APPLY = RemoteKind(kind=SERVICES, write=Write.APPLY)
ONCE = RemoteKind(kind=PODS, write=Write.ONCE)
UID = "liqod.io/local-uid"


def wanted(there=MERGE, uid="local-1", **labels):
    return {
        "apiVersion": there.kind.api_version,
        "kind": there.kind.name,
        "metadata": {
            "name": "a",
            "namespace": "shop-rome",
            "labels": {"app": "web", **labels},
            "annotations": {UID: uid} if there.write is Write.ONCE else {"note": "x"},
        },
        "data": {"k": "v"},
    }


def live(obj, there=MERGE, **meta):
    body = ownership.stamped(obj, there)
    return msgspec.convert(
        {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": "7", **meta}},
        Partial,
    )


@pytest.mark.parametrize("there", [MERGE, APPLY, ONCE])
def test_what_is_not_there_is_created(there):
    assert ownership.judge(wanted(there), None, there, None) is WriteAction.CREATE


@pytest.mark.parametrize("there", [MERGE, APPLY, ONCE])
def test_what_is_going_is_waited_for(there):
    found = live(wanted(there), there, deletionTimestamp="2026-01-01T00:00:00Z")
    assert ownership.judge(wanted(there, app="other"), found, there, None) is WriteAction.WAIT


@pytest.mark.parametrize("there", [MERGE, APPLY])
def test_content_is_trusted_while_our_last_write_is_the_last(there):
    found = live(wanted(there), there)
    settled = ownership.version(found.metadata)
    assert ownership.judge(wanted(there), found, there, settled) is WriteAction.KEEP
    assert ownership.judge(wanted(there), found, there, None) is WriteAction.VERIFY
    assert ownership.judge(wanted(there), found, there, "u/6") is WriteAction.VERIFY


def test_a_first_generation_was_changed_by_nobody():
    found = live(wanted(), generation=1)
    assert ownership.judge(wanted(), found, MERGE, None) is WriteAction.KEEP
    assert (
        ownership.judge(wanted(), live(wanted(), generation=2), MERGE, None) is WriteAction.VERIFY
    )


@pytest.mark.parametrize("there", [MERGE, APPLY, ONCE])
def test_what_is_wanted_otherwise_is_updated(there):
    found = live(wanted(there), there)
    settled = ownership.version(found.metadata)
    assert ownership.judge(wanted(there, tier="front"), found, there, settled) is WriteAction.UPDATE


@pytest.mark.parametrize("there", [MERGE, APPLY, ONCE])
def test_a_label_changed_by_hand_is_seen_in_the_metadata(there):
    body = ownership.stamped(wanted(there), there)
    body["metadata"] = {**body["metadata"], "labels": {"app": "edited"}, "generation": 1}
    found = msgspec.convert(body, Partial)
    assert ownership.judge(wanted(there), found, there, None) is WriteAction.UPDATE


def test_the_content_of_an_object_written_once_does_not_follow_and_is_put_back():
    for generation in (0, 1):
        found = live(wanted(ONCE), ONCE, generation=generation)
        assert ownership.judge(wanted(ONCE) | {"data": {}}, found, ONCE, None) is WriteAction.KEEP
    edited = live(wanted(ONCE), ONCE, generation=5)
    assert ownership.judge(wanted(ONCE), edited, ONCE, None) is WriteAction.VERIFY
    assert (
        ownership.judge(wanted(ONCE), edited, ONCE, ownership.version(edited.metadata))
        is WriteAction.KEEP
    )
    whole = {**wanted(ONCE), "data": {"k": "edited", "more": "x"}}
    assert ownership.restored(wanted(ONCE), whole) == {"data": {"k": "v", "more": None}}
    assert ownership.restored(wanted(ONCE), wanted(ONCE)) == {}


def test_another_uid_means_delete_first():
    found = live(wanted(ONCE), ONCE)
    assert ownership.judge(wanted(ONCE, uid="local-2"), found, ONCE, None) is WriteAction.REMOVE


def relabelled(before, after, foreign=()):
    found = live(before, ONCE)
    theirs = {**found.metadata.labels, **dict(foreign)}
    found = msgspec.structs.replace(
        found, metadata=msgspec.structs.replace(found.metadata, labels=theirs)
    )
    patch = ownership.relabel(after, found, ONCE)
    state = {
        "metadata": {"labels": theirs, "annotations": dict(found.metadata.annotations)},
    }
    return merged(state, patch)["metadata"]


def test_labels_follow_and_those_of_others_stay():
    meta = relabelled(
        wanted(ONCE, old="1"), wanted(ONCE, new="2"), [("liqo.io/creator-user", "milan-1")]
    )
    assert meta["labels"] == {"app": "web", "new": "2", "liqo.io/creator-user": "milan-1"}


label_maps = st.dictionaries(st.sampled_from("abcd"), st.sampled_from("xyz"))


@given(label_maps, label_maps, label_maps)
def test_relabelling_settles_in_one_write(before, after, foreign):
    foreign = {f"f-{key}": value for key, value in foreign.items()}
    old, new = wanted(ONCE, **before), wanted(ONCE, **after)
    meta = relabelled(old, new, foreign.items())
    assert meta["labels"] == {"app": "web", **after, **foreign}
    found = msgspec.convert({"metadata": {**meta, "uid": "u"}}, Partial)
    assert ownership.judge(new, found, ONCE, None) is WriteAction.KEEP
    assert ownership.relabel(new, found, ONCE) == {}


FOLLOWS = msgspec.structs.replace(ONCE, follows=("data.k", "data.list[*].image"))


def test_what_follows_of_an_object_written_once_is_written_and_nothing_else():
    before = wanted(FOLLOWS)
    found = live(before, FOLLOWS)
    settled = ownership.version(found.metadata)
    assert ownership.judge(before, found, FOLLOWS, settled) is WriteAction.KEEP
    other = {**before, "data": {"k": "v", "fixed": "x"}}
    assert ownership.judge(other, found, FOLLOWS, settled) is WriteAction.KEEP
    items = [{"name": "a", "image": "2", "fixed": "x"}, {"name": "new", "image": "2"}]
    after = {**before, "data": {"k": "w", "fixed": "x", "list": items}}
    assert ownership.judge(after, found, FOLLOWS, settled) is WriteAction.UPDATE
    assert ownership.changed(after, found, FOLLOWS)
    there = [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]
    whole = {"metadata": {"resourceVersion": "7"}, "data": {"k": "v", "list": there}}
    patch = ownership.followed(after, whole, FOLLOWS)
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert merged(whole, patch)["data"] == {
        "k": "w",
        "list": [{"name": "a", "image": "2"}, {"name": "b", "image": "1"}],
    }
    assert ownership.followed(after, merged(whole, patch), FOLLOWS) == {}


def test_labels_follow_alone_where_the_content_is_refused():
    found = live(wanted(FOLLOWS), FOLLOWS)
    after = {**wanted(FOLLOWS, tier="front"), "data": {"k": "w"}}
    patch = ownership.relabel(after, found, FOLLOWS, alone=True)
    assert patch["metadata"]["labels"] == {"tier": "front"}
    relabelled = msgspec.convert(merged(msgspec.to_builtins(found), patch), Partial)
    assert ownership.changed(after, relabelled, FOLLOWS)
    assert not ownership.changed(wanted(FOLLOWS), relabelled, FOLLOWS)
    assert ownership.relabel(after, relabelled, FOLLOWS, alone=True) == {}


def test_an_object_of_which_nothing_was_recorded_is_looked_at_once():
    found = live(wanted(ONCE), ONCE)
    assert ownership.judge(wanted(FOLLOWS), found, FOLLOWS, None) is WriteAction.UPDATE
    assert ownership.changed(wanted(FOLLOWS), found, FOLLOWS)


FIXED = RemoteKind(kind=SERVICES, write=Write.APPLY, fixed=("data.k",))


@pytest.mark.parametrize(
    ("again", "content", "step"),
    [
        ("local-1", {"other": "v"}, WriteAction.UPDATE),  # the server refuses that, or takes it
        ("local-2", {"k": "v"}, WriteAction.UPDATE),
        ("local-2", {"k": "v", "more": "x"}, WriteAction.UPDATE),
        ("local-2", {"k": "other"}, WriteAction.REMOVE),
        ("local-2", {}, WriteAction.REMOVE),
    ],
)
def test_what_an_apply_leaves_as_it_was_is_made_anew_for_another_object(again, content, step):
    def of(uid, data):
        made = wanted(FIXED)
        made["metadata"]["annotations"] = {UID: uid}
        return {**made, "data": data}

    before = live(of("local-1", {"k": "v"}), FIXED)
    after = of(again, content)
    assert ownership.judge(after, before, FIXED, None) is step
    older = live(of("local-1", {"k": "v"}), APPLY)
    del older.metadata.annotations[UID]
    assert ownership.judge(after, older, FIXED, None) is WriteAction.UPDATE
