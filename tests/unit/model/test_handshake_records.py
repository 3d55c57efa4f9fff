"""How two clusters have met, by the requests that are kept."""

import msgspec
import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.meta import ObjectMeta
from liqod.model.view import requests
from liqod.model.view.requests import RequestRow, met
from liqod.resources import IncomingPeering, OutgoingPeering
from liqod.resources.peering import IncomingPeeringSpec, OutgoingPeeringSpec

DONE = RequestRow(
    name="a", cluster_id="milan", words="copper-lantern-otter", state="Done", by="policy"
)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((), ("kubeconfig", "")),
        (None, ("-", "")),
        ((DONE,), ("policy", "copper-lantern-otter")),
        ((msgspec.structs.replace(DONE, cluster_id="turin"),), ("kubeconfig", "")),
        ((msgspec.structs.replace(DONE, state="Denied"),), ("kubeconfig", "")),
        ((DONE, msgspec.structs.replace(DONE, by="request")), ("policy, request", DONE.words)),
    ],
)
def test_how_a_peer_was_met(found: tuple[RequestRow, ...] | None, expected: tuple[str, str]):
    assert met("milan", found) == expected


@pytest.mark.parametrize(
    ("spec", "marks", "by"),
    [
        (OutgoingPeeringSpec(invitation_secret="a", addresses=("milan:1",)), {}, "invitation"),
        (OutgoingPeeringSpec(addresses=("milan:1",)), {}, "address"),
        (OutgoingPeeringSpec(cluster_id="milan"), {}, "discovery"),
        (OutgoingPeeringSpec(cluster_id="milan"), {labels.SOUGHT: "true"}, "policy"),
    ],
)
def test_what_led_to_who_is_asked(spec: OutgoingPeeringSpec, marks: dict[str, str], by: str):
    found = OutgoingPeering(metadata=ObjectMeta(name="milan", labels=marks), spec=spec)
    assert requests.outgoing(found).by == by


def test_what_led_who_asks_here():
    for invitation, by in (("invitation-1", "invitation"), ("", "request")):
        spec = IncomingPeeringSpec(cluster_id="rome", invitation=invitation)
        assert requests.incoming(IncomingPeering(metadata=ObjectMeta(), spec=spec)).by == by
