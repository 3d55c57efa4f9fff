"""`liqod discover`: what is printed of the clusters that are seen."""

import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from liqod.cli import app
from liqod.cli.frame import Frame
from liqod.model.view.daemonfacts import PluginFacts, SightingFacts
from liqod.model.view.state import LiveState

KEY = "ab" * 32


@pytest.fixture
def daemon(monkeypatch):
    """A daemon that sees what it is set to; returns the command's exit status."""
    sightings: dict[str, SightingFacts] = {}

    class Viewer:
        async def snapshot(self):
            off = PluginFacts("mdns", "discovery", state="off")
            return SimpleNamespace(), LiveState(
                sightings=sightings, plugins={"discovery/mdns": off}
            )

    @asynccontextmanager
    async def connected(frame):
        yield Viewer()

    monkeypatch.setattr(Frame, "daemon", connected)

    def made(*rows: SightingFacts, words: tuple[str, ...] = ()) -> int:
        sightings.update({f"{number}": row for number, row in enumerate(rows)})
        return app.main(["discover", *words])

    return made


MILAN = SightingFacts(
    "milan", "mdns", where="milan", key=KEY, addresses=("10.0.0.1:6446",), free={"cpu": "4"}
)


def test_a_table_of_clusters_with_what_to_do(daemon, capsys):
    assert (
        daemon(MILAN, SightingFacts("milan", "dns-srv", proof="DNSSEC"), SightingFacts("bern", "m"))
        == 0
    )
    out = capsys.readouterr().out
    assert "signed abababab, DNSSEC" in out
    assert "`liqod peer milan` asks it" in out
    assert out.index("bern") < out.index("milan")


def test_one_cluster_with_its_sources(daemon, capsys):
    assert daemon(MILAN, words=("milan",)) == 0
    out = capsys.readouterr().out
    assert f"key {KEY}" in out
    assert "offers cpu 4" in out


def test_json_has_each_source(daemon, capsys):
    assert daemon(MILAN, words=("-o", "json")) == 0
    (found,) = json.loads(capsys.readouterr().out)["clusters"]
    assert (found["id"], found["verified"], found["key"]) == ("milan", "signed", KEY)
    assert found["sources"][0]["addresses"] == ["10.0.0.1:6446"]


def test_where_nothing_is_seen_it_says_what_is_off(daemon, capsys):
    assert daemon() == 0
    assert "no cluster is seen; off are mdns" in capsys.readouterr().out


def test_a_cluster_that_is_not_seen_is_an_error(daemon, capsys):
    assert daemon(words=("oslo",)) == 1
    assert "no cluster oslo is seen" in capsys.readouterr().err


def test_what_others_have_written_moves_no_cursor(daemon, capsys):
    assert (
        daemon(SightingFacts("milan", "mdns", where="\x1b[2Jmilan", unverified="\x1b]0;x\x07")) == 0
    )
    assert daemon(words=("milan",)) == 0
    assert "\x1b" not in capsys.readouterr().out
