"""Commands of how-to pages, typed as they stand on two embedded clusters, in their order."""

import io
import re
import shlex
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio

from liqod.apimachinery.kinds import DEPLOYMENTS, NAMESPACES, NODES
from tests.simulated import processes
from tests.simulated.borrower import eventually
from tests.simulated.discovery.test_policyrequests import sighting
from tests.simulated.meeting import entries, lead, meeting, run
from tests.simulated.members import AT_MILAN, Member, members
from tests.testbed import shownblocks
from tests.testbed.shownblocks import Shown

pytestmark = pytest.mark.long

SETTINGS = """
[webhook]
enabled = false
[network]
enabled = false
[[peers]]
id = "milan"
node_labels = {region = "north"}
"""
CONTAINER = {"name": "web", "image": "web:1"}


def words_of(shown: Shown) -> list[str]:
    """The words of a command behind the program's name."""
    return shlex.split(shown.line)[1:]


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

    async def follow(*shown: Shown) -> None:
        for each in shown:
            words = words_of(shownblocks.answered(each))
            ended = await run(clusters[each.at or "rome"], tmp_path, *words)
            assert ended.status == 0, (words, ended.out, ended.err)

    user = shownblocks.commands("how-to/peering", "1. Let rome in")
    peer = shownblocks.commands("how-to/peering", "2. Peer")
    await follow(*user, *peer)
    await follow(*shownblocks.commands("how-to/peering", "3. Look", only="liqod status"))
    assert await rome.admin.find(NODES, "milan") is not None
    await follow(*shownblocks.commands("how-to/offload", "1. Ask what would become of it"))
    await follow(*shownblocks.commands("how-to/offload", "2. Offload it", only="liqod"))
    await follow(*shownblocks.commands("how-to/offload", "Look", only="liqod"))
    assert await milan.admin.find(NAMESPACES, "shop-rome") is not None
    await follow(*shownblocks.commands("how-to/offload", "Where its pods may run"))
    await follow(*shownblocks.commands("how-to/diagnose", "1. What is wrong here"))
    await follow(*shownblocks.commands("how-to/diagnose", "2. Which layer fails"))
    await follow(*shownblocks.commands("how-to/take-away", "A consumer, for a while"))

    async def is_lent_again() -> bool:
        return await rome.admin.find(NODES, "milan") is not None

    await eventually(is_lent_again)
    await follow(*shownblocks.commands("how-to/offload", "Take it back"))
    assert await milan.admin.find(NAMESPACES, "shop-rome") is None
    await follow(*shownblocks.commands("how-to/offload", "2. Offload it", only="liqod"))
    await follow(*shownblocks.commands("how-to/take-away", "One namespace"))
    assert await milan.admin.find(NAMESPACES, "shop-rome") is None

    *both, with_their_word, alone = shownblocks.commands("how-to/take-away", "One peer")
    await follow(*both)
    await follow(*shownblocks.commands("how-to/take-away", "Look", only="liqod"))
    assert await rome.admin.find(NODES, "milan") is None
    assert await milan.admin.find(NAMESPACES, AT_MILAN) is None
    for ending in (with_their_word, alone):
        (tmp_path / "rome-at-milan.kubeconfig").unlink()
        await follow(*user, *peer, ending)
    assert await rome.admin.find(NODES, "milan") is None
    await follow(*shownblocks.commands("how-to/take-away", "A peer that is not to be trusted"))


async def test_an_invitation_is_handed_over_as_its_page_says(
    tmp_path: Path, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
):
    invite, peer = map(words_of, shownblocks.commands("how-to/invitation", "By a line"))
    *peer, redirected, _ = peer
    assert redirected == "<"
    async with meeting("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        line = (await run(milan, tmp_path, *invite)).out
        assert re.fullmatch(r"liqod://\S+/#v1\.\S+\n", line)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(line.encode())))
        done = await run(rome, tmp_path, *peer)
        assert done.status == 0, done.err
        assert await rome.admin.find(NODES, "milan") is not None


async def test_a_request_is_made_and_answered_as_its_page_says(
    tmp_path: Path, nursery: trio.Nursery
):
    [asked] = shownblocks.commands("how-to/invitation", "By a request", only="liqod peer")
    answered = shownblocks.commands("how-to/invitation", "By a request", only="liqod inbox")
    async with meeting("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        rome.around.append(await sighting(milan))
        path = tmp_path / "rome.kubeconfig"
        path.write_text(rome.cluster.kubeconfig)
        done: list[processes.Ended] = []

        async def ask() -> None:
            words = (sys.executable, "-m", "liqod", *words_of(asked), "--kubeconfig", str(path))
            done.append(await processes.run(*words, answer="y\n"))

        async def is_asked() -> bool:
            return any(each.status.phase == "Waiting" for each in await entries(milan))

        clusters = {"rome": rome, "milan": milan}
        with trio.fail_after(60):
            async with trio.open_nursery() as asking:
                asking.start_soon(ask)
                await eventually(is_asked, seconds=30)
                for each in answered:
                    ended = await run(clusters[each.at], tmp_path, *words_of(each))
                    assert ended.status == 0, (each, ended.err)
        [entry] = await entries(milan)
        assert (entry.spec.decision, entry.spec.granted["cpu"]) == ("Accept", "2")
        [peered] = done
        assert (peered.status, peered.out.strip()) == (0, "peered: milan is the node milan here")
        assert f"milan shows here: {entry.status.words}. Does its operator see the same?" in (
            peered.err
        )
