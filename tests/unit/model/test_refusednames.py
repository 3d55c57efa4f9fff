"""The reasons of a provider, on their way."""

from liqod.model.crossing import refusednames


def test_reasons_travel_and_nonsense_says_nothing():
    reasons = {"shop": "the name shop-system is reserved", "fine": ""}
    told = refusednames.render(reasons)
    assert refusednames.parse(told) == {"shop": reasons["shop"]}
    assert refusednames.render({"fine": ""}) is None
    for text in (None, "", "[]", '{"a": 1}', "{" * 20_000):
        assert refusednames.parse(text) == {}


def test_there_is_an_end_to_what_is_told():
    told = refusednames.render({f"n{number}": "x" * 1000 for number in range(1000)}) or ""
    assert len(told) < refusednames.LONGEST
    assert len(refusednames.parse(told)) == refusednames.MOST
