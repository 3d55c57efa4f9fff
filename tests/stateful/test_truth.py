"""Reports during a fault are true: each fault in front of all programs that report it.

For each row of ``docs/background/failures.md``, and each fault that scripts inject, the table says
which layer of ``doctor`` fails first, for this cluster and for the peer, which layers must not be
called good, how ``doctor`` and ``status`` end, what the virtual node shows, and one figure of the
metrics.
"""

import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod.consumer import link
from liqod.inspect import probing
from tests.stateful import world
from tests.stateful.cases import CASES, Case
from tests.stateful.elsewhere import ELSEWHERE
from tests.stateful.examination import Said, examine, keep_alive
from tests.stateful.steps import Step
from tests.stateful.world import World

FAILURES = Path(__file__).parents[2] / "docs" / "background" / "failures.md"


@pytest.fixture(autouse=True)
def _connected(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    keep_alive(monkeypatch)
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def said_of(case: Case, patch: pytest.MonkeyPatch) -> Said:
    """Have it happen to clusters whose daemons lead by their Leases, and ask."""

    async def story(made: World) -> Said:
        for site in made.sites.values():
            site.kill()
            site.elects = True
        made["rome"].inspected = made["milan"].inspected = True
        await made.start()
        await trio.sleep(20)
        for step in case.script:
            await (step.do(made) if isinstance(step, Step) else step(made))
        await trio.sleep(case.seconds)
        return await examine(made[case.at], patch, probe=case.probe)

    said: Said = world.play(story)
    return said


def _cases() -> Iterator[Any]:
    """Each case; the first one of each kind is in every run."""
    seen = set()
    for case in CASES:
        marks = pytest.mark.stateful if case.kind in seen else ()
        yield pytest.param(case, id=case.name, marks=marks)
        seen.add(case.kind)


@pytest.mark.long
@pytest.mark.parametrize("case", [*_cases()])
def test_what_is_said_is_true(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    said = said_of(case, monkeypatch)
    whole = f"{said.diagnosis}\n{said.problems()}\n{said.nodes}\n{said.metrics}"
    peer = "rome" if case.at == "milan" else "milan"
    assert said.diagnosis.cluster_id == case.at, whole
    assert said.first() == case.own, whole
    peers = [ladder.peer for ladder in said.diagnosis.ladders]
    assert (said.first(peer) if peer in peers else "") == case.peer, whole
    good = {
        layer
        for ladder in said.diagnosis.ladders
        if ladder.peer in ("", peer)
        for layer, verdict in said.verdicts(ladder.peer).items()
        if verdict == "ok"
    }
    assert not good & set(case.dark), whole
    assert said.exits == case.exits, whole
    assert any(case.says in each for each in said.problems()) or not case.says, whole
    assert said.problems() or case.exits[1] == 0 or said.view is None, whole
    if case.node is not None:
        assert said.nodes["milan"] == case.node, whole
    assert case.metric in said.metrics or not case.metric, whole


@pytest.mark.long
@pytest.mark.parametrize("seconds", [60.0, -60.0])
def test_a_clock_that_is_wrong_is_named(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(header: str) -> float:
        return time.time() + seconds

    monkeypatch.setattr(link, "date_of", wrong)
    monkeypatch.setattr(probing, "date_of", wrong)
    said = said_of(Case("a clock is wrong"), monkeypatch)
    assert (said.first(), said.first("milan")) == ("time", "clock"), said
    assert said.exits == (1, 1)


def _rows() -> list[str]:
    """The rows of the page by section, and the sections that have none."""
    found: list[str] = []
    for section in FAILURES.read_text().split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        cells = re.findall(r"^\| (.+?) \|", text, re.MULTILINE)
        rows = [each for each in cells if each not in ("---", "what fails", "deleted")]
        found += [f"{title}: {each}" for each in rows] or [title]
    return found


@pytest.mark.parametrize("row", _rows())
def test_each_row_of_the_page_has_a_case(row: str) -> None:
    if row in ELSEWHERE:
        file, name = ELSEWHERE[row]
        assert f"def {name}(" in (Path(__file__).parents[1] / file).read_text()
    else:
        assert any(row in case.rows for case in CASES)


def test_each_case_speaks_of_rows_that_there_are() -> None:
    assert {row for case in CASES for row in case.rows} | ELSEWHERE.keys() <= set(_rows())
