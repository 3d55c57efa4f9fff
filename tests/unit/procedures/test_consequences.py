"""What comes of a changed object, at which cluster."""

from typing import Any

import pytest

from liqod.apimachinery.kinds import NAMESPACES, NODES, Kind
from liqod.procedures.clusterobjects import ClusterObjects
from liqod.procedures.consequences import Changed, consequences
from liqod.procedures.dryrun import PlannedObject, differences
from liqod.procedures.planning import changed_by, judged
from liqod.resources import (
    CONFIGURATIONS,
    GATEWAY_CLIENTS,
    INCOMING_PEERINGS,
    NAMESPACE_OFFLOADINGS,
    OUTGOING_PEERINGS,
    OVERRIDE_POLICIES,
    QUOTAS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
)

Json = dict[str, Any]
PLACE = "liqo-tenant-milan"
TENANT = {
    "metadata": {
        "name": PLACE,
        "labels": {"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": "milan"},
    }
}
SLICE: dict[str, Any] = {"metadata": {"labels": {"liqo.io/replication": "true"}}}


def named(name: str, spec: Json, place: str = PLACE, *, metadata: Json = {}, **more: Any) -> Json:  # noqa: B006
    """An object."""
    return {"metadata": {"name": name, "namespace": place, **metadata}, "spec": spec, **more}


def of(kind: Kind, before: Json | None, after: Json | None, *, peered: bool = True) -> list[str]:
    """The consequences of a change in rome."""
    states = ClusterObjects(), ClusterObjects()
    key = ("", "")
    for state, found in zip(states, (before, after), strict=True):
        if peered:
            state.put(NAMESPACES, TENANT)
        if found is not None:
            state.put(kind, found)
            key = (found["metadata"].get("namespace") or "", found["metadata"]["name"])
    came = consequences(kind, Changed("rome", key, *states))
    return [f"{each.action} {each.cluster}: {each.message}" for each in came]


ASKED: Json = {"clusterID": "milan", "key": "0" * 64, "resources": {"cpu": "4"}}
WANTED: Json = {"class": "default", "providerClusterID": "milan", "resources": {"cpu": "4"}}


@pytest.mark.parametrize(
    ("kind", "before", "after", "told"),
    [
        (NAMESPACES, None, TENANT, ["begins milan: it has a tenant namespace"]),
        (NAMESPACES, TENANT, None, ["ends milan: all of the peering with it"]),
        (OUTGOING_PEERINGS, None, named("milan", ASKED), ["begins milan: asks it to lend: cpu 4"]),
        (
            OUTGOING_PEERINGS,
            None,
            named("milan", {**ASKED, "key": ""}),
            ["begins milan: asks it", "waits milan: it names no key"],
        ),
        (
            OUTGOING_PEERINGS,
            None,
            named("rome", {**ASKED, "clusterID": "rome"}),
            ["refused rome: it is this cluster's own id"],
        ),
        (
            OUTGOING_PEERINGS,
            named("milan", ASKED, status={"phase": "Done"}),
            named("milan", {**ASKED, "resources": {"cpu": "8"}}, status={"phase": "Done"}),
            ["changes milan: nothing: it is a peering already"],
        ),
        (
            OUTGOING_PEERINGS,
            named("milan", ASKED, status={"phase": "Done"}),
            None,
            ["ends milan: all that is borrowed from it"],
        ),
        (
            OUTGOING_PEERINGS,
            named("milan", {**ASKED, "lend": True}, status={"phase": "Done"}),
            None,
            ["changes milan: nothing ends by it: `liqod unpeer milan`"],
        ),
        (
            OUTGOING_PEERINGS,
            named(
                "milan",
                ASKED,
                metadata={"labels": {"liqo.io/managed": "true"}},
                status={"phase": "Done"},
            ),
            None,
            ["changes milan: nothing ends by it: `liqod unpeer milan`"],
        ),
        (
            OUTGOING_PEERINGS,
            named("milan", ASKED, status={"phase": "Waiting"}),
            None,
            ["ends milan: the request is taken back"],
        ),
        (
            INCOMING_PEERINGS,
            named("turin-1", {"clusterID": "turin", "resources": {"cpu": "1"}}),
            named(
                "turin-1", {"clusterID": "turin", "resources": {"cpu": "1"}, "decision": "Accept"}
            ),
            ["begins turin: it is let in when it asks, and granted cpu 1 at the most"],
        ),
        (
            RESOURCE_SLICES,
            None,
            named("milan", WANTED, **SLICE),
            ["begins milan: asks it for cpu 4"],
        ),
        (RESOURCE_SLICES, None, named("milan", WANTED), []),
        (
            RESOURCE_SLICES,
            None,
            named("milan", {**WANTED, "resources": {"cpu": "many"}}, **SLICE),
            ["refused milan: "],
        ),
        (
            RESOURCE_SLICES,
            None,
            named("milan", {**WANTED, "providerClusterID": "turin"}, **SLICE),
            ["refused turin: liqo-tenant-milan is the tenant namespace of milan"],
        ),
        (
            RESOURCE_SLICES,
            named("milan", WANTED, **SLICE),
            named("milan", {**WANTED, "resources": {"cpu": "8"}}, **SLICE),
            ["changes milan: asks it for cpu 8 instead of cpu 4"],
        ),
        (RESOURCE_SLICES, named("milan", WANTED, **SLICE), None, ["ends milan: nothing more is"]),
        (
            TENANTS,
            None,
            named("milan", {"clusterID": "milan", "authzPolicy": "TolerateNoHandshake"}),
            ["begins milan: it may borrow, by credentials"],
        ),
        (
            TENANTS,
            None,
            named("turin", {"clusterID": "turin"}),
            ["refused turin: the Tenant is of 'turin', but this namespace belongs to milan"],
        ),
        (
            TENANTS,
            named("milan", {"clusterID": "milan"}),
            named("milan", {"clusterID": "milan", "tenantCondition": "Drained"}),
            ["ends milan: all of its pods here"],
        ),
        (
            TENANTS,
            named("milan", {"clusterID": "milan", "tenantCondition": "Cordoned"}),
            named("milan", {"clusterID": "milan"}),
            ["changes milan: new pods of it are accepted again"],
        ),
        (
            QUOTAS,
            None,
            named("a", {"user": "a", "resources": {"cpu": "-1"}}),
            ["refused milan: negative quantities: cpu"],
        ),
        (
            QUOTAS,
            named("a", {"user": "a", "resources": {"cpu": "1"}}),
            named("a", {"user": "a", "resources": {"cpu": "2"}}),
            ["changes milan: pods of a here may have cpu 2"],
        ),
        (
            OVERRIDE_POLICIES,
            None,
            named("a", {"objects": [{"kind": "Secret"}]}),
            ["refused all peers: what a Secret is"],
        ),
        (
            OVERRIDE_POLICIES,
            None,
            named("a", {"objects": [{"kind": "Pod"}], "peers": ["milan", "turin"]}),
            ["changes milan: objects that it selects", "waits turin: no peer has this id"],
        ),
        (
            CONFIGURATIONS,
            None,
            named("milan", {"remote": {"cidr": {"pod": ["127.0.0.0/8"], "external": []}}}),
            ["refused milan: 127.0.0.0/8"],
        ),
        (
            CONFIGURATIONS,
            None,
            named("milan", {"remote": {"cidr": {"pod": ["10.9.0.0/16"], "external": []}}}),
            ["begins milan: its pods are in 10.9.0.0/16"],
        ),
        (GATEWAY_CLIENTS, named("milan", {}), None, ["ends milan: the tunnel"]),
        (
            VIRTUAL_NODES,
            None,
            named("milan", {"clusterID": "milan"}),
            ["begins milan: the virtual node milan here"],
        ),
        (
            VIRTUAL_NODES,
            named("milan", {"clusterID": "milan"}),
            None,
            ["ends milan: the virtual node milan here"],
        ),
    ],
)
def test_each_kind(kind: Kind, before: Json | None, after: Json | None, told: list[str]):
    found = of(kind, before, after, peered=kind != NAMESPACES)
    assert len(found) == len(told), found
    assert all(one.startswith(start) for one, start in zip(found, told, strict=True)), found


def test_without_a_tenant_namespace_a_slice_and_a_tenant_are_refused():
    none = "liqo-tenant-milan is the tenant namespace of no peer"
    assert of(RESOURCE_SLICES, None, named("milan", WANTED, **SLICE), peered=False) == [
        f"refused milan: {none}"
    ]
    tenant = named("milan", {"clusterID": "milan"})
    assert of(TENANTS, None, tenant, peered=False) == [f"refused milan: {none}"]


def test_a_node_of_this_cluster_is_no_peer_s():
    node: Json = {"metadata": {"name": "milan"}, "status": {}}
    node["status"]["addresses"] = [{"type": "InternalIP", "address": "10.9.0.7"}]
    states = ClusterObjects(), ClusterObjects()
    ranges = {"remote": {"cidr": {"pod": ["10.9.0.0/16"], "external": []}}}
    for state in states:
        state.put(NAMESPACES, TENANT)
        state.put(NODES, node)
    states[1].put(CONFIGURATIONS, named("milan", ranges))
    states[1].put(RESOURCE_SLICES, named("milan", WANTED, **SLICE))
    changed = Changed("rome", (PLACE, "milan"), *states)
    [refused] = consequences(CONFIGURATIONS, changed)
    assert refused.action == "refused"
    assert "one of this cluster's nodes in it (10.9.0.7)" in refused.message
    [taken] = consequences(RESOURCE_SLICES, changed)
    assert taken.message == "a Node named milan exists here that is not this peer's"


def test_with_a_namespace_goes_what_is_in_it():
    before = ClusterObjects()
    before.put(NAMESPACES, {"metadata": {"name": "shop"}})
    before.put(NAMESPACE_OFFLOADINGS, named("offloading", {}, "shop"))
    gone = PlannedObject(NAMESPACES, "", "shop", "", "deleted", {"metadata": {"name": "shop"}})
    after = changed_by(before, [gone])
    assert list(after.store(NAMESPACE_OFFLOADINGS)) == []
    assert list(before.store(NAMESPACE_OFFLOADINGS)) == [("shop", "offloading")]
    assert [each.consequences for each in judged([gone], before, after, "rome", "liqo")] == [()]


def test_differences_name_the_fields():
    before = {"spec": {"a": 1, "b": {"c": [1]}, "d": 2}}
    after = {"spec": {"a": 1, "b": {"c": [2]}, "e": 3}}
    assert differences(before, after) == [
        ("spec.b.c", [1], [2]),
        ("spec.d", 2, None),
        ("spec.e", None, 3),
    ]


@pytest.mark.parametrize(
    ("others", "peered", "told"),
    [
        ((), True, ["ends"]),
        ((named("again", ASKED),), True, ["changes"]),
        ((named("turin", {**ASKED, "clusterID": "turin"}),), True, ["ends"]),
        ((named("lends", {**ASKED, "lend": True}),), True, ["ends"]),
        ((), False, ["changes"]),
    ],
)
def test_a_pruned_peering_ends_where_nothing_else_declares_it(
    others: tuple[Json, ...], peered: bool, told: list[str]
):
    before, after = ClusterObjects(), ClusterObjects()
    before.put(OUTGOING_PEERINGS, named("milan", ASKED, status={"phase": "Done"}))
    before.put(NAMESPACES, TENANT)
    if peered:
        after.put(NAMESPACES, TENANT)
    for each in others:
        after.put(OUTGOING_PEERINGS, each)
    changed = Changed("rome", (PLACE, "milan"), before, after)
    assert [each.action for each in consequences(OUTGOING_PEERINGS, changed)] == told


@pytest.mark.parametrize(
    ("cpu", "others", "told"),
    [
        ("4", (), "begins milan: asks it for cpu 4"),
        ("5", (), "refused milan: one consumer may have cpu 4 in all its slices, and cpu 5 is"),
        ("2", ("2",), "begins milan: asks it for cpu 2"),
        ("3", ("2",), "refused milan: one consumer may have cpu 4 in all its slices, and cpu 3 is"),
    ],
)
def test_more_than_the_provider_approved_is_refused(cpu: str, others: tuple[str, ...], told: str):
    before, after = ClusterObjects(), ClusterObjects()
    agreed = {"phase": "Done", "clusterID": "milan", "granted": {"cpu": "4"}}
    for state in (before, after):
        state.put(NAMESPACES, TENANT)
        state.put(OUTGOING_PEERINGS, named("milan", ASKED, "liqo", status=agreed))
        for number, each in enumerate(others):
            spec = {**WANTED, "resources": {"cpu": each}}
            metadata = {**SLICE["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"}
            state.put(RESOURCE_SLICES, named(f"s{number}", spec, metadata=metadata))
    wanted = named("milan", {**WANTED, "resources": {"cpu": cpu}}, **SLICE)
    after.put(RESOURCE_SLICES, wanted)
    [found] = consequences(RESOURCE_SLICES, Changed("rome", (PLACE, "milan"), before, after))
    assert f"{found.action} {found.cluster}: {found.message}".startswith(told)
    # Who was let in by hand has no such bound.
    after.remove(OUTGOING_PEERINGS, ("liqo", "milan"))
    [found] = consequences(RESOURCE_SLICES, Changed("rome", (PLACE, "milan"), before, after))
    assert found.action == "begins"
