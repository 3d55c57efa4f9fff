"""Asking a cluster that has to be asked: an operator answers, and the daemons do the rest."""

import dataclasses
from typing import Any

import pytest
import trio

from liqod import config
from liqod.advertsigner import free_now
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, SECRETS, Kind
from liqod.apimachinery.meta import Partial
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.procedures import peeringrequest
from liqod.resources import (
    INCOMING_PEERINGS,
    OUTGOING_PEERINGS,
    QUOTAS,
    RESOURCE_SLICES,
    IncomingPeering,
)
from tests.simulated.borrower import eventually
from tests.simulated.meeting import address_of, ask, entries, key_of, meeting, outgoing, peered
from tests.simulated.members import Member


async def waiting(host: Member) -> IncomingPeering:
    """The one entry that waits to be decided."""

    async def look() -> IncomingPeering | None:
        found = await entries(host)
        return found[0] if found and found[0].status.phase == "Waiting" else None

    found: IncomingPeering = await eventually(look)
    return found


async def decide(host: Member, entry: IncomingPeering, decision: str, **more: Any) -> None:
    """Writes a decision as `kubectl edit` does."""
    patch = {"spec": {"decision": decision, **more}}
    await host.admin.patch(INCOMING_PEERINGS, entry.name, patch, "liqo")


async def confirmed(guest: Member, name: str) -> None:
    """Somebody compared the words."""

    async def look() -> str | None:
        return (await outgoing(guest, name)).status.words or None

    await peeringrequest.confirm(guest.admin, "liqo", name, await eventually(look))


@pytest.mark.long
@pytest.mark.handshake
async def test_an_operator_grants_less_than_was_asked_and_that_bounds_later_slices_too():
    async with meeting("rome", "milan") as [rome, milan]:
        await ask(rome, milan, resources={"cpu": "4"})
        entry = await waiting(milan)
        assert entry.status.words == (await outgoing(rome, "milan")).status.words != ""
        await confirmed(rome, "milan")
        await decide(milan, entry, "Accept", granted={"cpu": "2"})
        done = await peered(rome, "milan")
        assert done.status.granted["cpu"] == "2"
        assert await rome.admin.find(NODES, "milan") is not None
        quota = await milan.admin.get(QUOTAS, "milan-" + (await _suffix(milan)), "liqo-tenant-rome")
        assert quota["spec"]["resources"]["cpu"] == "2"
        more = await rome.admin.get(RESOURCE_SLICES, "milan", "liqo-tenant-milan")
        more["spec"]["resources"]["cpu"] = "3"
        await rome.admin.update(RESOURCE_SLICES, more, "liqo-tenant-milan")
        said = await rome.until(
            RESOURCE_SLICES,
            "milan",
            "liqo-tenant-milan",
            lambda found: "was approved" in str(found["status"].get("conditions")),
        )
        assert said["status"]["resources"]["cpu"] == "2"


@pytest.mark.long
@pytest.mark.handshake
async def test_what_is_granted_is_not_free_any_more():
    async with meeting("rome", "milan", settings='[[policies]]\naction = "auto"') as [rome, milan]:
        before = free_now(milan.context)
        assert before["cpu"] == "4"
        await ask(rome, milan, key=await key_of(milan), resources={"cpu": "3"})
        await peered(rome, "milan")
        assert free_now(milan.context)["cpu"] == "1"
        assert free_now(rome.context) == before


async def _suffix(milan: Member) -> str:
    found = await milan.admin.list(QUOTAS)
    name: str = found[0]["metadata"]["name"]
    return name.removeprefix("milan-")


async def test_an_operator_says_no():
    async with meeting("rome", "milan") as [rome, milan]:
        before = milan.everything()
        await ask(rome, milan)
        entry = await waiting(milan)
        await decide(milan, entry, "Deny")
        with pytest.raises(ConfigError, match="its operator says no"):
            await peered(rome, "milan")
        await milan.admin.delete(INCOMING_PEERINGS, entry.name, "liqo")
        assert milan.everything() == before


@pytest.mark.long
@pytest.mark.handshake
async def test_nothing_goes_to_who_was_not_recognised_though_it_accepts():
    async with meeting("rome", "milan", settings='[[policies]]\naction = "auto"') as [rome, milan]:
        await ask(rome, milan)

        async def told() -> bool:
            return "compare the words" in (await outgoing(rome, "milan")).status.message

        await eventually(told)
        assert (await outgoing(rome, "milan")).status.phase == "Waiting"
        with pytest.raises(ConfigError, match="not the words"):
            await peeringrequest.confirm(rome.admin, "liqo", "milan", "other-words-than-these")
        await confirmed(rome, "milan")
        await peered(rome, "milan")


def name_the_key(guest: Member, host: Member, key: str, more: str = "") -> None:
    """The operator writes the other cluster's key into the configuration, and has it read."""
    entry = f'\n[[peers]]\nid = "{host.id}"\nkey = "{key}"\n{more}\n'
    assert guest.handshake is not None
    changed = config.parse(guest.settings + entry)
    guest.handshake.reload(dataclasses.replace(guest.context, config=changed))


@pytest.mark.long
@pytest.mark.handshake
async def test_who_has_the_key_that_the_configuration_names_needs_no_words():
    async with meeting("rome", "milan", settings='[[policies]]\naction = "auto"') as [rome, milan]:
        await ask(rome, milan)

        async def told() -> bool:
            return "compare the words" in (await outgoing(rome, "milan")).status.message

        await eventually(told)
        name_the_key(rome, milan, await key_of(milan))
        await peered(rome, "milan")


@pytest.mark.long
@pytest.mark.handshake
async def test_a_cluster_that_the_configuration_names_is_asked_for_the_nodes_that_it_says():
    async with meeting("rome", "milan", settings='[[policies]]\naction = "auto"') as [rome, milan]:
        asked = f'addresses = ["{address_of(milan)}"]\nvirtual_nodes = "groups"'
        name_the_key(rome, milan, await key_of(milan), asked)

        async def made() -> bool:
            return await rome.admin.find(OUTGOING_PEERINGS, "milan", "liqo") is not None

        await eventually(made)
        await peered(rome, "milan")
        [found] = await rome.admin.list(RESOURCE_SLICES, decode=Partial)
        assert found.metadata.annotations[labels.VIRTUAL_NODES] == "groups"


async def test_who_has_another_key_than_the_configuration_names_is_asked_nothing():
    async with meeting("rome", "milan", settings='[[policies]]\naction = "auto"') as [rome, milan]:
        name_the_key(rome, milan, await key_of(rome))
        await ask(rome, milan)

        async def refused() -> bool:
            return bool((await outgoing(rome, "milan")).status.next_try)

        await eventually(refused)
        found = await outgoing(rome, "milan")
        assert found.spec.key == await key_of(rome)
        assert "key" in found.status.message
        assert await entries(milan) == []


@pytest.mark.long
@pytest.mark.handshake
async def test_a_key_that_is_named_while_words_are_compared_ends_it_and_words_do_not_replace_it():
    async with meeting("rome", "milan", settings='[[policies]]\naction = "auto"') as [rome, milan]:
        await ask(rome, milan)

        async def told() -> bool:
            return "compare the words" in (await outgoing(rome, "milan")).status.message

        await eventually(told)
        words = (await outgoing(rome, "milan")).status.words
        expected = await key_of(rome)
        name_the_key(rome, milan, expected)

        async def ended() -> bool:
            return f"{expected[:16]}… is expected" in (await outgoing(rome, "milan")).status.message

        await eventually(ended)
        with pytest.raises(ConfigError, match="is expected by the configuration"):
            await peeringrequest.confirm(rome.admin, "liqo", "milan", words)
        assert (await outgoing(rome, "milan")).spec.key == expected


@pytest.mark.long
@pytest.mark.handshake
async def test_an_answer_comes_though_both_daemons_were_others_meanwhile():
    async with meeting("rome", "milan") as [rome, milan]:
        await ask(rome, milan)
        await waiting(milan)
        await confirmed(rome, "milan")
        port = milan.handshake.port if milan.handshake is not None else 0
        await rome.stop()
        await milan.stop()
        milan.settings = milan.settings.replace("port = 0", f"port = {port}")
        await decide(milan, (await entries(milan))[0], "Accept")
        await milan.start()
        await rome.start()
        await peered(rome, "milan")


@pytest.mark.long
@pytest.mark.handshake
async def test_both_ask_each_other_at_once():
    async with meeting("rome", "milan", settings='[[policies]]\naction = "auto"') as [rome, milan]:
        await ask(rome, milan)
        await ask(milan, rome)
        await confirmed(rome, "milan")
        await confirmed(milan, "rome")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(peered, rome, "milan")
            nursery.start_soon(peered, milan, "rome")


async def test_one_that_takes_a_free_port_takes_nothing_back(monkeypatch: pytest.MonkeyPatch):
    said: list[str | None] = []
    patch = Client.patch

    async def recorded(client: Client, kind: Kind, name: str, change: Any, *more: Any) -> Partial:
        if (kind, name) == (SECRETS, labels.KEYS_SECRET):
            notes = change["metadata"].get("annotations", {})
            said.extend(notes[each] for each in notes.keys() & {labels.MET_AT})
        return await patch(client, kind, name, change, *more)

    monkeypatch.setattr(Client, "patch", recorded)
    async with meeting("milan") as [milan]:
        assert (milan.context.config.handshake.enabled, milan.context.config.handshake.port) == (
            True,
            0,
        )
        assert milan.handshake is not None
        assert said == [milan.handshake.advertised_address]
        keys = await milan.admin.get(SECRETS, labels.KEYS_SECRET, "liqo")
        assert keys["metadata"]["annotations"][labels.MET_AT] == milan.handshake.advertised_address
