"""The texts of exports: each is written anew when it has changed, and no more of them are kept than
are told."""

from types import SimpleNamespace

import pytest

from liqod.clusterset.exporttexts import ExportTexts
from liqod.model.clusterset.exports import NO_SERVICE, Export, Refusal
from liqod.model.network.remapping import Remapped
from liqod.resources.exchanges import LONGEST, MOST_EXPORTS
from tests.unit.model.clusterset.values import endpoints, export

MANY = [f"s{number:04}" for number in range(MOST_EXPORTS)]


class Own:
    """Exports of a namespace, and the names of those that were read since the last look."""

    def __init__(self, *names):
        slices = (endpoints("10.71.0.1"),)
        self.exports: dict[str, Export | Refusal] = {}
        self.exports |= {name: export(name=name, slices=slices) for name in names}
        self._read = []

    def within(self, namespace):
        return [(namespace, name) for name in self.exports]

    def of(self, key):
        self._read.append(key[1])
        return self.exports[key[1]]

    def read(self):
        found, self._read = self._read, []
        return found


@pytest.fixture
def addresses():
    found = SimpleNamespace(by="", theirs=lambda address: "", sent=Remapped)
    found.judges_by = lambda: found.by
    return found


@pytest.fixture
def texts(addresses, monkeypatch):
    made = ExportTexts(addresses)
    nodes = SimpleNamespace(store=SimpleNamespace(indexed=lambda *_: ()))
    monkeypatch.setattr(made, "nodes", nodes)
    return made


def test_only_what_has_changed_is_read_anew(texts, addresses):
    own = Own("api", "web")
    first = texts.of("shop", own)
    assert own.read() == sorted(first.texts) == ["api", "web"]
    assert texts.of("shop", own) == first
    assert own.read() == []
    own.exports["web"] = export(name="web", slices=(endpoints("10.71.0.2"),))
    texts.changed(("shop", "web"))
    texts.changed(("other", "api"))
    assert "10.71.0.2" in texts.of("shop", own).texts["web"]
    assert own.read() == ["web"]
    addresses.by = "other ranges"
    texts.of("shop", own)
    assert own.read() == ["api", "web"]
    texts.forget("other")
    texts.of("shop", own)
    assert own.read() == []
    texts.forget("shop")
    texts.of("shop", own)
    assert own.read() == ["api", "web"]


def test_an_export_that_has_ended_is_told_no_more(texts):
    own = Own("api", "web")
    texts.of("shop", own)
    del own.exports["api"]
    assert list(texts.of("shop", own).texts) == ["web"]
    own.exports["web"] = Refusal(NO_SERVICE, "there is none")
    texts.changed(("shop", "web"))
    assert not texts.of("shop", own).texts


def test_a_text_that_is_told_no_more_is_not_kept(texts):
    own = Own(*MANY)
    assert list(texts.of("shop", own).texts) == own.read() == MANY
    own.exports["a"] = export(name="a")
    assert texts.of("shop", own).left_out.keys() == {MANY[-1]}
    assert own.read() == ["a"]
    del own.exports["a"]
    assert list(texts.of("shop", own).texts) == MANY
    assert own.read() == [MANY[-1]]


def test_a_text_that_is_too_long_is_not_kept(texts):
    own = Own("web")
    addresses = (f"10.71.{number // 250}.{number % 250}" for number in range(LONGEST // 10))
    own.exports["web"] = export(name="web", slices=(endpoints(*addresses),))
    assert texts.of("shop", own).left_out.keys() == {"web"}
    texts.of("shop", own)
    assert own.read() == ["web", "web"]
