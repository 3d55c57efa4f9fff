"""Commands of how-to pages, typed as they stand on two embedded clusters, in their order."""

import io
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from liqod.apimachinery.kinds import DEPLOYMENTS, NAMESPACES, NODES
from tests.simulated.borrower import eventually
from tests.simulated.meeting import lead, meeting, run
from tests.simulated.members import AT_MILAN, Member, members
from tests.testbed.pages import ROOT

pytestmark = pytest.mark.long

SETTINGS = "[webhook]\nenabled = false\n[network]\nenabled = false\n"
LINE = re.compile(r"^    (?:(rome|milan)\$ )?liqod (.*?)(?:  +#.*)?$", re.MULTILINE)
ELSEWHERE = re.compile("test network|--forget|unpeer .*--remote-kubeconfig")
"""Parts of commands for joined networks, and of those that stand for another one before them."""
ASKING = ("unoffload", "unpeer", "drain")
"""Commands that ask, which `--yes` answers."""
CONTAINER = {"name": "web", "image": "web:1"}
PEERING = ("1. Let rome in", "2. Peer", "3. Look")
OFFLOADING = ("1. Ask what would become of it", "2. Offload it", "Look")


def typed(page: str, *sections: str) -> list[tuple[str, list[str]]]:
    """The commands of sections of a page: at which cluster, and their words."""
    text = (ROOT / "docs" / "how-to" / f"{page}.md").read_text()
    parts = {each.partition("\n")[0]: each for each in text.split("\n## ")}
    found = [each for section in sections for each in LINE.findall(parts[section])]
    assert found
    return [(at or "rome", line.split()) for at, line in found if not ELSEWHERE.search(line)]


@pytest.fixture
async def clusters(nursery: trio.Nursery) -> AsyncIterator[dict[str, Member]]:
    """Two that are no peers yet; rome has an application."""
    async with members("rome", "milan", nodes=1, settings=SETTINGS) as made:
        for member in made:
            await nursery.start(lead, member)
        found = {member.id: member for member in made}
        await found["rome"].admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
        template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}
        spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
        body = {"metadata": {"name": "web"}, "spec": spec}
        await found["rome"].admin.create(DEPLOYMENTS, body, "shop")
        yield found


async def test_pages_are_typed_from_a_peering_to_its_end(
    clusters: dict[str, Member], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    rome, milan = clusters["rome"], clusters["milan"]

    async def follow(page: str, *sections: str) -> None:
        for at, words in typed(page, *sections):
            more = ("--yes",) if words[0] in ASKING else ()
            ended = await run(clusters[at], tmp_path, *words, *more)
            assert ended.status == 0, (words, ended.out, ended.err)

    await follow("peering", *PEERING)
    assert await rome.admin.find(NODES, "milan") is not None
    await follow("offload", *OFFLOADING)
    assert await milan.admin.find(NAMESPACES, "shop-rome") is not None
    await follow("diagnose", "1. What is wrong here", "2. Which layer fails")
    await follow("take-away", "A consumer, for a while")

    async def is_lent_again() -> bool:
        return await rome.admin.find(NODES, "milan") is not None

    await eventually(is_lent_again)
    await follow("offload", "Take it back")
    assert await milan.admin.find(NAMESPACES, "shop-rome") is None
    await follow("take-away", "One peer", "Look")
    assert await rome.admin.find(NODES, "milan") is None
    assert await milan.admin.find(NAMESPACES, AT_MILAN) is None


async def test_an_invitation_is_handed_over_as_its_page_says(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
):
    (_, invite), (_, [*peer, redirected, _]) = typed("invitation", "By a line")
    assert redirected == "<"
    async with meeting("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        line = (await run(milan, tmp_path, *invite)).out
        assert re.fullmatch(r"liqod://\S+/#v1\.\S+\n", line)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
        done = await run(rome, tmp_path, *peer)
        assert done.status == 0, done.err
        assert await rome.admin.find(NODES, "milan") is not None
