"""The watch protocol, taken apart: lines, events, and lines that are too long."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod import errors
from liqod.apimachinery.kinds import PODS
from liqod.apimachinery.rawobjects import slim_raw
from liqod.kube.watch import Bookmark, Lines, WatchEvent, parse
from tests.testbed.held import held
from tests.unit.kube.peers import pod


def line(kind: str, obj: object) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode()


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_events(kind):
    event = parse(line(kind, pod("p", version=9, spec={"a": [1, "é"]})))
    assert isinstance(event, WatchEvent)
    assert event.type == kind
    assert event.item.key == ("a", "p")
    assert event.item.resource_version == "9"
    body = json.loads(event.item.body)
    assert "managedFields" not in body["metadata"]
    assert body["spec"] == {"a": [1, "é"]}
    assert body["metadata"]["uid"] == "uid-p"


def test_an_object_without_a_namespace():
    event = parse(line("ADDED", {"metadata": {"name": "n"}}))
    assert isinstance(event, WatchEvent)
    assert event.item.key == ("", "n")


def test_bookmarks():
    meta = {"resourceVersion": "12", "annotations": {"k8s.io/initial-events-end": "true"}}
    assert parse(line("BOOKMARK", {"metadata": meta})) == Bookmark("12", True)
    assert parse(line("BOOKMARK", {"metadata": {"resourceVersion": "13"}})) == Bookmark("13", False)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        ({"code": 410, "reason": "Expired", "message": "too old"}, errors.Expired),
        ({"code": 500, "message": "etcd is away"}, errors.Overloaded),
        ({"code": 403, "message": "no"}, errors.Forbidden),
        ({}, errors.ProtocolError),
    ],
)
def test_errors(status, kind):
    with pytest.raises(kind):
        parse(line("ERROR", status))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"null",
        b"garbage",
        b"\xff\xff",
        b'{"type": 1, "object": {}}',
        b'{"type": "ADDED"}',
        b'{"type": "ADDED", "object": []}',
        b'{"type": "ADDED", "object": {}}',
        b'{"type": "ADDED", "object": {"metadata": null}}',
        b'{"type": "ADDED", "object": {"metadata": {"name": 3}}}',
        b'{"type": "ADDED", "object": {"metadata": {"namespace": "x"}}}',
        b'{"type": "ADDED", "object": {"metadata": {"name": "x"}, "spec": }}',
        b'{"type": "EXPLODED", "object": {"metadata": {"name": "x"}}}',
        b'{"type": "BOOKMARK", "object": {"metadata": {"annotations": 3}}}',
    ],
)
def test_nonsense(data):
    with pytest.raises(errors.ProtocolError):
        parse(data)


@given(st.lists(st.binary(max_size=30).map(lambda b: b.replace(b"\n", b"."))), st.data())
def test_lines_do_not_depend_on_how_they_come(texts, data):
    whole = b"".join(text + b"\n" for text in texts)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=10).map(sorted))
    lines = Lines(limit=20)
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        found += lines.feed(whole[start:end])
    assert found == [text for text in texts if 0 < len(text) <= 20]
    assert lines.skipped == sum(len(text) > 20 for text in texts)


def test_a_long_line_is_not_held():
    lines = Lines(limit=100)
    for _ in range(1000):
        assert lines.feed(b"x" * 50) == []
    assert sum(map(len, held(lines, bytes))) <= 100
    assert lines.feed(b"\nshort\n") == [b"short"]
    assert lines.skipped == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


# Fields of an object beside those that every object has, which are texts.
OTHERS = st.text(max_size=6).filter(lambda name: name != "kind")


@given(st.dictionaries(OTHERS, JSON, max_size=4), JSON)
def test_nothing_but_managed_fields_is_lost(fields, managed):
    meta = {"name": "n", "namespace": "a", "resourceVersion": "1", "labels": {"l": "v"}}
    whole = fields | {"metadata": meta}
    noisy = fields | {"metadata": meta | {"managedFields": managed}}
    assert json.loads(slim_raw(json.dumps(noisy).encode()).body) == whole


@given(
    st.dictionaries(OTHERS, JSON, max_size=4),
    JSON,
    st.permutations(["apiVersion", "kind", "metadata"]),
    st.permutations(["name", "managedFields", "namespace"]),
    st.booleans(),
)
def test_an_object_is_the_same_however_it_comes(fields, managed, order, inside, of_a_list):
    meta = {"name": "n", "namespace": "a", "managedFields": managed}
    whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {key: meta[key] for key in inside}}
    names = [key for key in order if key == "metadata" or not of_a_list]
    body = msgspec.json.encode({key: whole[key] for key in names} | fields)
    kept = {key: meta[key] for key in inside if key != "managedFields"}
    expected = {"apiVersion": "v1", "kind": "Pod", "metadata": kept} | fields
    assert slim_raw(body, PODS).body == msgspec.json.encode(expected)
