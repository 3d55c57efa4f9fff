"""The zones of virtual nodes that are held back for the pods of this cluster."""

from collections.abc import Collection, Iterator
from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery.labels import HELD, REGION, ZONE
from liqod.config import PeerSettings
from liqod.consumer.slices.heldzones import (
    MOST_SPECS,
    HeldZones,
    counts_zones,
    may_show,
    trim_spread,
)
from liqod.kube.cache.store import StoreChange
from liqod.model.objects import spreading
from liqod.model.objects.scheduling import TOLERATION

Json = dict[str, Any]
KEPT = 600.0


def pod(name: str, **spec: Any) -> bytes:
    constraint = {"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
    known = {"topologySpreadConstraints": [constraint], "containers": [{"name": "c"}], **spec}
    meta = {"namespace": "shop", "name": name, "labels": {"app": name}}
    return msgspec.json.encode({"metadata": meta, "spec": known})


def note(zones: HeldZones, name: str, body: bytes | None) -> bool:
    new = None if body is None else trim_spread(body)
    return zones.note(StoreChange(("shop", name), None, new))


def node(zone: str | None = "eu-1", **marks: str) -> Json:
    shown = {**({ZONE: zone} if zone else {}), **marks}
    return {"metadata": {"name": "milan"}, "spec": {"labels": shown}}


def held(zones: HeldZones, made: Json) -> tuple[str | None, float | None]:
    left = zones.hold(made)
    return made["spec"].get("annotations", {}).get(HELD[ZONE]), left


async def test_a_zone_is_held_back_while_a_pod_would_wait_and_a_while_after(autojump_clock: Any):
    zones = HeldZones(KEPT)
    assert held(zones, node()) == (None, None)
    assert note(zones, "web-1", pod("web-1"))
    assert held(zones, node()) == ("eu-1", None)
    assert held(zones, node(zone=None)) == (None, None)
    # Others of the template change nothing, and as long as one is there it stays held back.
    assert not note(zones, "web-2", pod("web-2"))
    await trio.sleep(2 * KEPT)
    assert not note(zones, "web-1", None)
    assert held(zones, node()) == ("eu-1", None)
    assert note(zones, "web-2", None)
    assert held(zones, node()) == ("eu-1", KEPT)
    await trio.sleep(KEPT / 2)
    assert held(zones, node()) == ("eu-1", KEPT / 2)
    await trio.sleep(KEPT / 2)
    assert held(zones, node()) == (None, None)


@pytest.mark.parametrize(
    ("spec", "holds"),
    [
        ({}, True),
        ({"nodeSelector": {"kubernetes.io/os": "linux"}}, True),
        ({"nodeSelector": {"disk": "ssd"}}, False),
        ({"nodeSelector": {"pool": "red"}}, True),
        ({"tolerations": [TOLERATION]}, False),
        ({"topologySpreadConstraints": []}, False),
    ],
)
async def test_only_pods_that_count_the_node_and_may_not_run_there_hold_it(spec: Json, holds: bool):
    zones = HeldZones(KEPT)
    note(zones, "web", pod("web", **spec))
    assert (held(zones, node(pool="red"))[0] == "eu-1") is holds


async def test_a_pod_that_comes_to_tolerate_the_node_holds_it_no_more():
    zones = HeldZones(0.0)
    note(zones, "web", pod("web"))
    assert held(zones, node()) == ("eu-1", None)
    assert note(zones, "web", pod("web", tolerations=[TOLERATION]))
    assert held(zones, node()) == (None, None)


async def test_more_pods_than_are_read_hold_a_zone_back():
    zones = HeldZones(KEPT)
    for number in range(MOST_SPECS + 1):
        note(zones, f"web-{number}", pod("web", nodeSelector={"disk": str(number)}))
        if number == MOST_SPECS - 1:
            assert held(zones, node()) == (None, None)
    assert held(zones, node()) == ("eu-1", None)


def by(*keys: str) -> Json:
    """The constraints of a pod that is spread by some labels."""
    usual = {"whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1}
    return {"topologySpreadConstraints": [{**usual, "topologyKey": key} for key in keys]}


@pytest.mark.parametrize(
    ("keys", "here", "notes"),
    [
        ((REGION,), (), {HELD[REGION]: "eu"}),
        ((REGION,), {(REGION, "us"), (ZONE, "eu")}, {HELD[REGION]: "eu"}),
        ((REGION,), {(REGION, "eu")}, {}),
        ((REGION, ZONE), {(REGION, "eu")}, {HELD[ZONE]: "eu-1"}),
        ((REGION, ZONE), (), {HELD[REGION]: "eu", HELD[ZONE]: "eu-1"}),
    ],
)
async def test_a_region_is_held_back_where_no_node_here_is_in_it(
    keys: tuple[str, ...], here: Collection[tuple[str, str]], notes: Json, autojump_clock: Any
):
    zones, made = HeldZones(KEPT), node(**{REGION: "eu"})
    body = pod("web", **by(*keys))
    assert counts_zones(body)
    note(zones, "web", body)
    assert zones.hold(made, here) is None
    assert made["spec"].get("annotations", {}) == notes
    # Each for itself: once the pods are spread by zone alone, the region comes back.
    note(zones, "web", pod("web", **by(ZONE)))
    after = node(**{REGION: "eu"})
    assert zones.hold(after, here) == (KEPT if HELD[REGION] in notes else None)
    await trio.sleep(KEPT)
    after = node(**{REGION: "eu"})
    zones.hold(after, here)
    assert after["spec"]["annotations"] == {HELD[ZONE]: "eu-1"}


async def test_specs_are_read_once_however_many_nodes_and_looks(monkeypatch: pytest.MonkeyPatch):
    zones = HeldZones(KEPT)
    for number in range(10):
        note(zones, f"web-{number}", pod("web", nodeSelector={"disk": str(number)}))
    read: list[Any] = []
    known = spreading.broken_keys

    def counted(template: Json, marks: Json) -> Iterator[str]:
        read.append(template)
        return known(template, marks)

    monkeypatch.setattr(spreading, "broken_keys", counted)
    for _ in range(5):
        zones.hold(node("eu-1"))
        zones.hold(node("eu-2"))
    assert len(read) == 20
    note(zones, "web-0", None)
    zones.hold(node("eu-1"))
    assert len(read) == 29


def test_of_pods_only_what_decides_is_kept():
    body = pod("web", hostname="x" * 10_000)
    assert counts_zones(body)
    assert len(trim_spread(body)) < 300
    assert not counts_zones(b'{"metadata":{"name":"web"},"spec":{}}')
    for bad in (b"[]", b"{"):
        assert trim_spread(bad) == bad


@pytest.mark.parametrize(
    ("settings", "may"),
    [
        (PeerSettings(id="milan"), False),
        (PeerSettings(id="milan", believed_labels=("pool",)), False),
        (PeerSettings(id="milan", believed_labels=("topology.kubernetes.io/*",)), True),
        (PeerSettings(id="milan", node_labels={ZONE: "eu-1"}), True),
        (PeerSettings(id="milan", node_labels={REGION: "eu"}), True),
    ],
)
def test_pods_are_followed_only_where_a_zone_may_be_shown(settings: PeerSettings, may: bool):
    assert may_show(settings) is may
