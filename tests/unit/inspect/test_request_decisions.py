"""Decisions that a viewer may have the daemon send to clusters that ask to borrow."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from liqod.apimachinery.meta import ObjectMeta
from liqod.errors import Misuse
from liqod.inspect.actions import Actions
from liqod.inspect.protocol import RequestError
from liqod.resources import INCOMING_PEERINGS, IncomingPeering
from liqod.resources.peering import IncomingPeeringSpec, IncomingPeeringStatus

DEFAULTS = {"cpu": "1", "memory": "1Gi"}


class Client:
    """One cluster, which rome asks for four CPUs; decisions are taken up at once."""

    def __init__(self, phase: str = "Waiting") -> None:
        self.patches: list[Any] = []
        self.entry = IncomingPeering(
            metadata=ObjectMeta(name="rome-5a3c9e01", resource_version="7"),
            spec=IncomingPeeringSpec(cluster_id="rome", resources={"cpu": "4"}),
            status=IncomingPeeringStatus(phase=phase, words="copper-lantern-otter"),
        )

    async def list(self, kind: Any, *asked: Any, decode: Any) -> list[IncomingPeering]:
        return [self.entry] if kind is INCOMING_PEERINGS else []

    async def get(self, *asked: Any, decode: Any) -> IncomingPeering:
        status = IncomingPeeringStatus(phase="Accepted", granted={"cpu": "2"})
        return msgspec.structs.replace(self.entry, status=status)

    async def patch(self, kind: Any, name: str, patch: Any, namespace: str) -> None:
        self.patches.append(patch)


def actions(client: Client) -> Actions:
    config = SimpleNamespace(provider=SimpleNamespace(default_resources=DEFAULTS))
    components = SimpleNamespace(discovery=None)
    context = SimpleNamespace(client=client, namespace="liqo", config=config)
    return Actions(context, components, SimpleNamespace())  # type: ignore[arg-type]


async def test_a_plan_says_exactly_what_would_be_granted_and_the_words():
    client = Client()
    plan = await actions(client).plan("accept", "rome", {"cpu": "2", "always": "true"})
    assert plan.changes == (
        "rome may borrow cpu 2, memory 1Gi from this cluster, now and for what it asks later",
        "it asks for cpu 4",
        "the words on both sides: copper-lantern-otter",
    )
    assert plan.command == "liqod inbox accept rome --cpu 2 --always"
    plan = await actions(client).plan("deny", "rome-5a3c9e01", {})
    assert plan.changes == ("rome is not let in",)
    assert not client.patches


async def test_a_decision_is_written_over_the_very_entry_that_was_read():
    client = Client()
    said = await actions(client).do("accept", "rome", {"cpu": "2"}, lambda step: None)
    assert said == "rome is accepted: cpu 2"
    assert await actions(client).do("deny", "rome", {}, lambda step: None) == "rome is denied"
    assert [each["metadata"] for each in client.patches] == [{"resourceVersion": "7"}] * 2
    assert [each["spec"] for each in client.patches] == [
        {"decision": "Accept", "granted": {"cpu": "2"}, "always": None},
        {"decision": "Deny", "always": None},
    ]


@pytest.mark.parametrize("verb", ["accept", "deny"])
async def test_who_does_not_wait_is_not_answered(verb: str):
    let_in = {
        "accept": "rome does not wait for an answer: it is done",
        "deny": "`liqod revoke rome`",
    }
    for phase, who, problem in (
        ("Waiting", "bern", "bern does not ask; rome does"),
        ("Done", "rome", let_in[verb]),
        ("Denied", "rome", "its request is over"),
    ):
        client = Client(phase)
        for asked in (
            actions(client).plan(verb, who, {}),
            actions(client).do(verb, who, {}, lambda step: None),
        ):
            with pytest.raises(RequestError, match=problem):
                await asked
        assert not client.patches


async def test_no_more_is_granted_than_was_asked():
    client = Client()
    for asked in (
        actions(client).plan("accept", "rome", {"cpu": "5"}),
        actions(client).do("accept", "rome", {"cpu": "5"}, lambda step: None),
    ):
        with pytest.raises(Misuse, match="no more than that can be granted"):
            await asked
    assert not client.patches
