"""The UIDs of a map's namespaces, as they travel."""

import pytest

from liqod.model.crossing import namespaceuids


def test_what_is_told_is_read():
    uids = {"b": "2", "a": "1"}
    assert namespaceuids.render(uids) == '{"a":"1","b":"2"}'
    assert namespaceuids.parse(namespaceuids.render(uids)) == uids


def test_no_more_is_told_than_an_object_holds():
    uids = {f"{number:063}": "x" * 36 for number in range(4096)}
    text = namespaceuids.render(uids)
    assert len(text) <= namespaceuids.LONGEST
    assert namespaceuids.parse(text).items() <= uids.items()


@pytest.mark.parametrize("text", [None, "", "[]", '{"a":1}', "{", '{"a":"' + "x" * 200_000 + '"}'])
def test_nonsense_tells_nothing(text):
    assert namespaceuids.parse(text) == {}
