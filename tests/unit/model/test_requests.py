"""The rows of who asks to borrow and of who is asked."""

from liqod.apimachinery.meta import ObjectMeta
from liqod.model.view import requests
from liqod.model.view.requests import RequestRow
from liqod.resources import IncomingPeering, OutgoingPeering
from liqod.resources.peering import (
    REACHED,
    IncomingPeeringSpec,
    IncomingPeeringStatus,
    OutgoingPeeringSpec,
    OutgoingPeeringStatus,
    StepCondition,
)

MADE = "2026-11-21T20:43:59Z"


def test_who_asks_is_shown_with_what_was_decided():
    spec = IncomingPeeringSpec(
        cluster_id="rome", public_key="PEM", request="r", resources={"cpu": 4}, source="192.0.2.7",
        invitation="invitation-1", decision="Accept", always=True,
    )  # fmt: skip
    status = IncomingPeeringStatus(
        phase="Accepted", words="copper-lantern-otter", reason="accepted by its operator",
        expires=MADE, granted={"cpu": "2"},
    )  # fmt: skip
    metadata = ObjectMeta(name="rome-5a3c9e01", creation_timestamp=MADE)
    assert requests.incoming(
        IncomingPeering(metadata=metadata, spec=spec, status=status)
    ) == RequestRow(
        name="rome-5a3c9e01", cluster_id="rome", words="copper-lantern-otter",
        asked={"cpu": "4"}, granted={"cpu": "2"}, state="Accepted", decision="Accept", always=True,
        source="192.0.2.7", reason="accepted by its operator", since=1795293839.0, expires=MADE,
        by="invitation",
    )  # fmt: skip


def test_who_is_asked_is_shown_by_what_it_has_proved_and_without_its_invitation():
    spec = OutgoingPeeringSpec(addresses=("a:1", "b:2"), invitation_secret="of-milan")
    made = OutgoingPeering(metadata=ObjectMeta(name="milan"), spec=spec)
    assert requests.outgoing(made) == RequestRow(name="milan", source="a:1", by="invitation")
    status = OutgoingPeeringStatus(
        cluster_id="milan", words="w", address="b:2", phase="Waiting", message="compare the words"
    )
    made = OutgoingPeering(metadata=ObjectMeta(name="milan"), spec=spec, status=status)
    assert requests.outgoing(made) == RequestRow(
        name="milan", cluster_id="milan", words="w", source="b:2", state="Waiting",
        reason="compare the words", by="invitation",
    )  # fmt: skip


def test_the_other_side_is_met_from_its_proof_until_the_next_try():
    reached = StepCondition(REACHED, "True")
    for status, met in (
        (OutgoingPeeringStatus(), False),
        (OutgoingPeeringStatus(conditions=(reached,)), True),
        (OutgoingPeeringStatus(conditions=(StepCondition(REACHED, "False"),)), False),
        (OutgoingPeeringStatus(conditions=(reached,), next_try=MADE), False),
    ):
        assert requests.outgoing(OutgoingPeering(status=status)).met is met
