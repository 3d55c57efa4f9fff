"""Entries of the inbox that can be answered, and the reasons against those that cannot."""

from typing import Any

import pytest

from liqod.apimachinery.meta import ObjectMeta
from liqod.errors import ConfigError
from liqod.procedures import agreements, answering
from liqod.resources import INCOMING_PEERINGS, IncomingPeering
from liqod.resources.peering import DENY, IncomingPeeringSpec, IncomingPeeringStatus


def entry(
    phase: str, *, always: bool = False, decision: Any = "", request: str = "one", name: str = "1"
) -> IncomingPeering:
    """An entry of rome, whose status is of request ``one``."""
    return IncomingPeering(
        metadata=ObjectMeta(name=f"rome-{name}", resource_version="7"),
        spec=IncomingPeeringSpec(
            cluster_id="rome",
            request=request,
            resources={"cpu": "4"},
            always=always,
            decision=decision,
        ),
        status=IncomingPeeringStatus(
            phase=phase, request="one", granted={"cpu": "2"}, reason="its operator says no"
        ),
    )


class Client:
    """One cluster, with some entries."""

    def __init__(self, *entries: IncomingPeering) -> None:
        self.entries = entries
        self.patches: list[Any] = []

    async def list(self, kind: Any, *asked: Any, decode: Any) -> list[IncomingPeering]:
        return list(self.entries) if kind is INCOMING_PEERINGS else []

    async def patch(self, kind: Any, name: str, patch: Any, namespace: str) -> None:
        self.patches.append(patch)


@pytest.mark.parametrize("phase", ["", "Waiting"])
async def test_who_waits_is_answered(phase: str):
    for decision in (answering.denial(), answering.denial(always=True)):
        client = Client(entry(phase))
        await answering.decide(client, "liqo", entry(phase), decision)  # type: ignore[arg-type]
        assert [each["spec"] for each in client.patches] == [decision]


@pytest.mark.parametrize("phase", ["Accepted", "Done"])
@pytest.mark.parametrize("always", [False, True])
async def test_who_was_let_in_is_not_denied_but_revoked(phase: str, always: bool):
    client = Client(entry(phase))
    with pytest.raises(ConfigError, match="let in already: `liqod revoke rome`"):
        await answering.decide(
            client,  # type: ignore[arg-type]
            "liqo",
            entry(phase),
            answering.denial(always=always),
        )
    assert not client.patches


def test_who_was_let_in_is_granted_nothing_else_but_may_be_for_ever():
    found = entry("Done")
    why = answering.problem(found, answering.acceptance(found, {"cpu": "1"}))
    assert "with cpu 2" in why
    assert "liqod revoke rome" in why
    assert answering.problem(found, answering.acceptance(found, {}, always=True)) == ""


@pytest.mark.parametrize("phase", ["Denied", "Expired", "Cancelled", "Failed"])
def test_what_is_over_is_not_accepted(phase: str):
    found = entry(phase)
    for always in (False, True):
        why = answering.problem(found, answering.acceptance(found, {}, always=always))
        assert f"its request is over ({phase})" in why
        assert "`liqod peer` there asks again" in why
    assert "there is nothing to deny" in answering.problem(found, answering.denial())


def test_a_denial_for_ever_is_made_and_lifted_though_nothing_waits():
    found = entry("Expired")
    assert answering.problem(found, answering.denial(always=True)) == ""
    denied = entry("Denied", always=True, decision=DENY)
    assert "denied for ever already" in answering.problem(denied, answering.denial(always=True))
    assert answering.problem(denied, answering.denial()) == ""
    assert "waits here for an answer" in answering.denied(denied, always=False)
    why = answering.problem(denied, answering.acceptance(denied, {}))
    assert "`liqod inbox deny rome-1` without --always lifts that" in why


def test_a_request_that_came_anew_is_answered_though_the_one_before_was_denied():
    found = entry("Denied", request="two")
    assert answering.problem(found, answering.acceptance(found, {})) == ""


def test_an_acceptance_that_let_nobody_in_is_no_success():
    assert answering.outcome(entry("Accepted")) == "rome is accepted: cpu 2"
    with pytest.raises(ConfigError, match=r"not let in \(Denied\): its operator says no"):
        answering.outcome(entry("Denied"))


@pytest.mark.parametrize("revoking", [False, True])
async def test_who_is_never_let_in_stays_so_when_another_of_its_id_leaves(
    revoking: bool, monkeypatch: pytest.MonkeyPatch
):
    async def nobody(*asked: Any) -> None:
        return None

    monkeypatch.setattr(agreements, "find_tenant", nobody)
    theirs = entry("Denied", always=True, decision=DENY, name="other")
    client: Any = Client(entry("Done"), theirs)
    found = await agreements.of_peer(client, "liqo", "rome", revoking=revoking)
    assert [each.meta.name for each in found] == ["rome-1"]
