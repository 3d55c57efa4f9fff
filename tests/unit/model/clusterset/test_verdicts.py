"""The conditions of ServiceExports and the status of ServiceImports."""

import re

import pytest
from hypothesis import given

from liqod.model.clusterset.exchange import NO_ROOM, TOO_LONG
from liqod.model.clusterset.exports import Refusal
from liqod.model.clusterset.verdicts import conflict, import_status, ready, valid
from tests.unit.model.clusterset.values import BOTH, export, merged, sets

REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
"""A reason of a condition, as the API server has it."""
REFUSED = Refusal("NoService", "there is no Service web in this namespace")


def brief(condition):
    return condition["type"], condition["status"], condition["reason"]


def test_an_export_is_valid_or_says_why_it_is_not():
    assert brief(valid(export())) == ("Valid", "True", "Valid")
    assert brief(valid(REFUSED)) == ("Valid", "False", "NoService")
    assert valid(REFUSED)["message"] == REFUSED.message


@pytest.mark.parametrize(
    ("entitled", "taken", "failed", "status", "reason"),
    [
        ((), (), {}, "True", "Ready"),
        (("rome",), (), {}, "False", "Pending"),
        (("rome", "milan"), ("rome",), {}, "False", "Pending"),
        (("rome", "milan"), ("rome", "milan", "oslo"), {}, "True", "Exported"),
        (("rome", "milan"), ("rome",), {"milan": "a bound"}, "False", "Failed"),
        (("rome",), ("rome",), {"oslo": "a bound"}, "True", "Exported"),
    ],
)
def test_an_export_is_ready_when_all_peers_that_may_have_it(
    entitled, taken, failed, status, reason
):
    assert brief(ready(export(), entitled, taken, failed)) == ("Ready", status, reason)


def test_the_peers_that_have_an_export_or_lack_it_are_named():
    assert ready(export(), ("rome", "milan"), ("rome", "milan"))["message"] == (
        "known to milan, rome alone"
    )
    assert ready(export(), ("rome", "milan"), ())["message"].startswith(
        "not yet known to milan, rome: a p"
    )
    many = [f"c{number}" for number in range(7)]
    said = ready(export(), many, ())["message"]
    assert said.startswith("not yet known to c0, c1, c2, c3, c4 and 2 more: ")


def test_the_bounds_that_keep_peers_from_being_told_are_named():
    failed = {"rome": TOO_LONG, "milan": TOO_LONG, "oslo": NO_ROOM, "turin": NO_ROOM}
    said = ready(export(), ("rome", "milan", "oslo"), (), failed)["message"]
    assert said == (
        "oslo cannot be told of it: exports of 32 namespaces are exchanged with that cluster, and "
        "no more: share fewer with it; milan, rome cannot be told of it: it takes more than 65,536 "
        "characters, those of some 600 endpoints: spread them over several Services"
    )


def test_the_clusters_that_have_it_by_way_of_a_peer_are_named_with_that_peer():
    def said(passed, taken=("rome",)):
        return ready(export(), ("rome",), taken, passed=passed)

    has = said({("turin", "rome"): True})
    assert brief(has) == ("Ready", "True", "Exported")
    assert has["message"] == "known to rome, and to turin by way of rome"
    both = said({("turin", "rome"): True, ("oslo", "rome"): False})
    assert both["message"].startswith(
        "known to rome, and to turin by way of rome; not to oslo by way of rome, which has not"
    )
    full = said({("turin", "rome"): None, ("oslo", "rome"): True})
    assert full["message"] == (
        "known to rome, and to oslo by way of rome; not to turin by way of rome: the one between "
        "has no room for it beside its own exports"
    )
    lacks = said({("turin", "rome"): False})
    assert brief(lacks) == ("Ready", "True", "Exported")
    assert lacks["message"].startswith("known to rome alone; not to turin by way of rome, which")
    assert said({})["message"] == "known to rome alone"
    assert brief(said({("turin", "rome"): False}, ())) == ("Ready", "False", "Pending")


def test_an_export_that_is_none_is_not_ready():
    assert brief(ready(REFUSED, ("rome",), ("rome",))) == ("Ready", "False", "Failed")


def test_a_conflict_has_all_reasons_and_names_the_winner():
    young = export("milan", 2, type="Headless", labels={"a": "1"})
    found = conflict(merged(export("rome", 1), young), complete=True)
    assert found == {
        "type": "Conflict",
        "status": "True",
        "reason": "TypeConflict,LabelsConflict",
        "message": (
            "type: that of rome is used; 1 of 2 clusters have another (milan); "
            "exported labels: that of rome is used; 1 of 2 clusters have another (milan)"
        ),
    }


def test_that_there_is_no_conflict_is_said_only_of_all_exports():
    assert conflict(merged(export()), complete=False) is None
    found = conflict(merged(export()), complete=True)
    assert found is not None
    assert brief(found) == ("Conflict", "False", "NoConflicts")


@given(sets())
def test_conditions_are_such_as_the_api_server_takes(found):
    made = conflict(merged(*found), complete=True)
    assert made is not None
    assert REASON.fullmatch(made["reason"])
    assert len(made["message"]) <= 1024


def test_an_import_names_its_clusters_and_whether_it_has_slices():
    made = merged(export("rome", 1), export("milan", 2))
    status = import_status(made, BOTH, ["10.96.0.9"], 2)
    assert status["clusters"] == [{"cluster": "milan"}, {"cluster": "rome"}]
    assert status["endpointSliceObjects"] == "Present"
    assert import_status(made, BOTH, ["10.96.0.9"], 0)["endpointSliceObjects"] == "Absent"


@pytest.mark.parametrize(
    ("more", "here", "ips", "found"),
    [
        ({}, BOTH, ["10.96.0.9"], ("Ready", "True", "Ready")),
        ({}, BOTH, [], ("Ready", "False", "Pending")),
        ({"families": BOTH}, BOTH, ["10.96.0.9"], ("Ready", "False", "Pending")),
        ({"families": BOTH}, ("IPv4",), ["10.96.0.9"], ("Ready", "True", "Ready")),
        ({"families": ("IPv6",)}, ("IPv4",), [], ("Ready", "False", "IPFamilyNotSupported")),
        ({"type": "Headless"}, BOTH, [], ("Ready", "True", "Ready")),
    ],
)
def test_an_import_is_ready_when_it_has_its_addresses(more, here, ips, found):
    (condition,) = import_status(merged(export(**more)), here, ips, 1)["conditions"]
    assert brief(condition) == found


def test_an_import_whose_service_is_refused_says_so_in_the_servers_words():
    status = import_status(merged(export()), BOTH, ["10.96.0.9"], 1, "spec.ports[1]: Invalid value")
    (condition,) = status["conditions"]
    assert brief(condition) == ("Ready", "False", "Failed")
    assert "spec.ports[1]: Invalid value" in condition["message"]
