"""Metrics of meetings: requests, refusals, and the bytes that channels carry."""

import re

import pytest

from liqod.discovery.discoverymanager import DiscoveryManager
from liqod.discovery.sightings import KeptSighting
from liqod.errors import ConfigError
from liqod.handshake.transport.sessioncounters import OTHER, SessionCounters
from liqod.inspect.inspector import Inspector
from liqod.inspect.metrics import render
from liqod.plugins import loader
from liqod.plugins.providers import Sighting
from liqod.procedures import answering, peeringrequest
from liqod.runtime.account import Account
from tests.simulated.borrower import eventually
from tests.simulated.channels import DEAD
from tests.simulated.meeting import ask, by_token, entries, invite, meeting, peered
from tests.simulated.members import Member


def scraped(member: Member) -> dict[str, float]:
    """The samples of a scrape, by name and labels."""
    text, _ = render(Inspector(member.context, member.components, member.host, Account()), "")
    lines = [each.rpartition(" ") for each in text.decode().splitlines() if each[0] != "#"]
    return {name: float(value) for name, _, value in lines}


def named(member: Member, peer: str) -> set[str]:
    """The metrics of meetings that have a sample about a peer."""
    about = re.compile(rf'(liqod_(?:channel|meeting|peering|sighting)\w*){{.*"{peer}"')
    return {found[1] for each in scraped(member) if (found := about.match(each))}


async def reads(member: Member, sample: str, value: float) -> None:
    """Wait until a scrape says so."""

    async def look() -> bool:
        return scraped(member).get(sample) == value

    await eventually(look)


@pytest.mark.long
async def test_requests_are_counted_by_phase_and_answers_by_what_was_said():
    async with meeting("rome", "turin", "milan") as [rome, turin, milan]:
        token = await invite(milan)
        await peeringrequest.ensure_request(rome.admin, "liqo", by_token(token))
        await peered(rome, token.id)
        await peeringrequest.ensure_request(turin.admin, "liqo", by_token(token))
        with pytest.raises(ConfigError, match="has been used"):
            await peered(turin, token.id)
        await reads(milan, 'liqod_peering_requests{direction="in",phase="Done"}', 1)
        await reads(rome, 'liqod_peering_requests{direction="out",phase="Done"}', 1)
        await reads(turin, 'liqod_peering_requests{direction="out",phase="Refused"}', 1)
        assert scraped(milan)['liqod_peering_answers_total{answer="accepted"}'] >= 1
        assert scraped(milan)['liqod_meetings_refused_total{reason="invitation-used"}'] == 1

        await ask(turin, milan)
        await reads(milan, 'liqod_peering_requests{direction="in",phase="Waiting"}', 1)
        [entry] = [each for each in await entries(milan) if each.status.phase == "Waiting"]
        await answering.decide(milan.admin, "liqo", entry, answering.denial())
        await reads(milan, 'liqod_peering_answers_total{answer="denied"}', 1)
        await reads(milan, 'liqod_peering_requests{direction="in",phase="Waiting"}', 0)

        await milan.stop()
        assert not [each for each in scraped(milan) if each.startswith("liqod_peering")]


@pytest.mark.long
async def test_channels_are_shown_while_they_are_open_and_their_bytes_afterwards():
    plugins = loader.load(sources=loader.built_in())
    async with meeting("rome", "milan", advertise=DEAD, plugins=plugins) as [rome, milan]:
        token = await invite(milan, resources={"cpu": "2", "memory": "4Gi"})
        await peeringrequest.ensure_request(rome.admin, "liqo", by_token(token))
        await peered(rome, token.id)
        await reads(rome, 'liqod_channels{peer="milan"}', 1)
        await reads(milan, 'liqod_channels{peer="rome"}', 1)
        assert scraped(rome)['liqod_channel_streams{peer="milan"}'] > 0
        assert scraped(rome)["liqod_channel_received_bytes_total"] > 1000
        assert scraped(milan)["liqod_channel_sent_bytes_total"] > 1000
        before = scraped(milan)["liqod_channel_sent_bytes_total"]
        await rome.unpeer(milan)
        await milan.unpeer(rome)

        async def forgotten() -> bool:
            return not named(rome, "milan") | named(milan, "rome")

        await eventually(forgotten)
        assert scraped(milan)["liqod_channel_sent_bytes_total"] >= before


async def test_sightings_are_counted_by_who_sees():
    async with meeting("rome") as [rome]:
        discovery = rome.components.discovery = DiscoveryManager(rome.context, rome.host)
        for cluster in ("milan", "turin"):
            seen = Sighting(cluster_id=cluster, plugin="mdns")
            discovery.book.take(KeptSighting(seen=seen, since=0.0))
        await reads(rome, 'liqod_sightings{plugin="mdns"}', 2)
        assert not named(rome, "milan")


def test_a_code_that_nobody_knows_makes_no_label():
    figures = SessionCounters()
    labels = set(figures.refused)
    for code in ("proof", "made-up", "gone", "cancelled", "denied", ""):
        figures.refuse(code)
    assert set(figures.refused) == labels
    assert (figures.refused["proof"], figures.refused[OTHER]) == (1, 2)
