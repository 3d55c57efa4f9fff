"""A peer's Event becomes one of the local object, and nothing of it is taken as it comes."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.apimachinery.kinds import PODS
from liqod.model.objects.remoteevents import (
    MESSAGE_BYTES,
    REASON_BYTES,
    LocalObject,
    again,
    local_event,
    name_of,
    read,
    state_of,
)
from liqod.model.text import is_fit

NOW = "2026-05-01T12:00:00Z"
POD = LocalObject(PODS, "shop", "web-0", "uid-here", "2026-05-01T11:00:00Z", "milan")


def told(**more):
    """A kubelet's Event, as API servers send it."""
    return {
        "metadata": {
            "name": "web-0.17f",
            "namespace": "shop-rome",
            "uid": "uid-there",
            "creationTimestamp": "2026-05-01T11:59:00Z",
            "labels": {"theirs": "x"},
            "annotations": {"theirs": "y"},
            "ownerReferences": [{"kind": "Node", "name": "n", "uid": "u", "apiVersion": "v1"}],
            "finalizers": ["theirs.io/hold"],
        },
        "involvedObject": {
            "kind": "Pod",
            "apiVersion": "v1",
            "name": "web-0",
            "namespace": "shop-rome",
            "uid": "pod-there",
            "fieldPath": "spec.containers{web}",
        },
        "type": "Warning",
        "reason": "BackOff",
        "message": "Back-off restarting failed container",
        "source": {"component": "kubelet", "host": "10.0.0.9"},
        "reportingComponent": "kubelet",
        "reportingInstance": "10.0.0.9",
        "firstTimestamp": "2026-05-01T11:58:00Z",
        "lastTimestamp": "2026-05-01T11:59:00Z",
        "count": 3,
        **more,
    }


def here(**more):
    """The local event that is made of it."""
    found = read(msgspec.json.encode(told(**more)))
    assert found is not None
    return local_event(found, POD, "milan", NOW)


def test_it_is_about_the_local_object_and_says_who_told_it():
    event = here()
    assert event["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "shop",
        "name": "web-0",
        "uid": "uid-here",
        "fieldPath": "spec.containers{web}",
    }
    assert event["source"] == {"component": "kubelet (remote)", "host": "milan"}
    assert event["reportingComponent"] == "kubelet (remote)"
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "BackOff", 3)
    assert event["firstTimestamp"] == "2026-05-01T11:58:00Z"
    assert event["lastTimestamp"] == "2026-05-01T11:59:00Z"


def test_nothing_of_the_remote_objects_metadata_is_taken_over():
    text = msgspec.json.encode(here())
    for theirs in (b"theirs", b"shop-rome", b"uid-there", b"pod-there", b"10.0.0.9", b"17f"):
        assert theirs not in text


def test_its_name_is_the_same_again_and_another_for_another_pod_peer_or_event():
    found = read(msgspec.json.encode(told()))
    other = read(msgspec.json.encode(told(metadata={"uid": "another"})))
    assert found is not None
    assert other is not None
    anew = POD._replace(uid="uid-of-the-next")
    names = [
        name_of(found, POD, "milan"),
        name_of(other, POD, "milan"),
        name_of(found, POD, "turin"),
        name_of(found, anew, "milan"),
    ]
    assert len(set(names)) == 4
    counted = read(msgspec.json.encode(told(count=9, lastTimestamp=NOW)))
    assert counted is not None
    assert name_of(counted, POD, "milan") == names[0]
    assert state_of(counted) != state_of(found)
    long = POD._replace(name="a" * 199 + "-" + "b" * 40)
    assert len(name_of(found, long, "milan")) <= 253
    assert "-.remote" not in name_of(found, long, "milan")


def test_events_of_the_newer_kind_have_their_times_and_counts_too():
    newer: dict[str, Any] = {
        "firstTimestamp": None,
        "lastTimestamp": None,
        "count": 0,
        "source": {},
    }
    at = "2026-05-01T11:30:00.123456Z"
    event = here(**newer, eventTime=at, reportingComponent="default-scheduler")
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2026-05-01T11:30:00Z"
    assert event["count"] == 1
    assert event["source"]["component"] == "default-scheduler (remote)"
    series = {"count": 4, "lastObservedTime": "2026-05-01T11:40:00.000000Z"}
    event = here(**newer, eventTime=at, series=series)
    assert (event["count"], event["lastTimestamp"]) == (4, "2026-05-01T11:40:00Z")


@pytest.mark.parametrize(
    "time", ["9999-01-01T00:00:00Z", "1066-01-01T00:00:00Z", "soon", "", "2026-02-31T00:00:00Z"]
)
def test_times_are_those_of_the_local_objects_life(time: str):
    event = here(firstTimestamp=time, lastTimestamp=time)
    assert POD.created is not None
    assert POD.created <= event["firstTimestamp"] <= event["lastTimestamp"] <= NOW


def test_counts_fit_what_holds_them():
    assert here(count=1 << 40)["count"] == (1 << 31) - 1
    assert here(count=-5)["count"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        b"{}",
        b"[]",
        b"\xff",
        msgspec.json.encode(told(type="Alarm")),
        msgspec.json.encode(told(message=5)),
        msgspec.json.encode(told(involvedObject=[])),
        msgspec.json.encode(told(metadata={})),
    ],
)
def test_what_is_no_event_is_none(wrong: bytes):
    assert read(wrong) is None


@given(st.text(), st.text(), st.text(), st.text())
def test_all_text_shows_itself_in_one_line_of_bounded_length(reason, message, component, field):
    event = here(
        reason=reason,
        message=message * 40,
        source={"component": component},
        involvedObject={"kind": "Pod", "name": "web-0", "fieldPath": field},
    )
    assert is_fit(event["message"])
    assert len(event["message"].encode()) <= MESSAGE_BYTES
    texts = (event["reason"], event["source"]["component"], event["involvedObject"])
    assert all(is_fit(str(each)) for each in texts)
    assert event["reason"]
    assert len(event["reason"].encode()) <= REASON_BYTES


def test_lines_of_a_probe_become_one():
    assert here(message="probe failed:\n\tType  Reason\x1b[31m")["message"] == (
        "probe failed: Type Reason\\x1b[31m"
    )


def test_a_patch_has_what_grows_and_no_more():
    assert set(again(here())) == {"count", "lastTimestamp", "message", "reason", "metadata"}
