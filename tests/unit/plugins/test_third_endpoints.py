"""Endpoints at a third cluster, as a peer is told of them."""

import msgspec
import pytest

from liqod.apimachinery.kinds import ENDPOINT_SLICES, SERVICES
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.plugins.contracts import Governor, ThirdCluster
from liqod.plugins.reflectors import endpointslices
from simulator.suites import NAMES, StaticView

POD = "10.244.0.0/16"
MILANS = PeerRanges(
    own=ClusterCidrs(pod=(POD,), external=("10.70.0.0/16",)),
    peer=ClusterCidrs(pod=(POD,)),
    seen=ClusterCidrs(pod=("10.72.0.0/16",)),
)
TURINS = PeerRanges(
    own=MILANS.own, peer=ClusterCidrs(pod=(POD,)), seen=ClusterCidrs(pod=("10.71.0.0/16",))
)
NODES = {
    "turin": ThirdCluster("turin", "tunnel", TURINS),
    "turin-2": ThirdCluster("turin", "tunnel", TURINS),
    "genoa": ThirdCluster("genoa"),
}
JOINED = msgspec.structs.replace(
    NAMES, pod_network="tunnel", ranges=MILANS, elsewhere=NODES, pod_cidrs=(POD,)
)


def endpoint(address, node, **more):
    return {"addresses": [address], "nodeName": node, "conditions": {"ready": True}, **more}


def slice_of(*endpoints, **annotations):
    return {
        "apiVersion": ENDPOINT_SLICES.api_version,
        "kind": ENDPOINT_SLICES.name,
        "metadata": {
            "name": "db-x7k2p",
            "namespace": "shop",
            "uid": "u1",
            "labels": {"kubernetes.io/service-name": "db"},
            "annotations": annotations,
        },
        "addressType": "IPv4",
        "endpoints": list(endpoints),
        "ports": [{"name": "sql", "port": 5432, "protocol": "TCP"}],
    }


def service(**annotations):
    return {
        "apiVersion": SERVICES.api_version,
        "kind": SERVICES.name,
        "metadata": {"name": "db", "namespace": "shop", "annotations": annotations},
        "spec": {"clusterIP": "None"},
    }


DIRECT = {"liqo.io/use-direct-connections": "true"}
MEMBERS = (
    endpoint("10.244.0.5", "worker-1", hostname="db-0"),
    endpoint("10.244.9.9", "milan", hostname="db-1"),
    endpoint("10.71.0.5", "turin", hostname="db-2"),
    endpoint("10.71.0.6", "turin-2", hostname="db-3"),
)


def out(source, annotations=DIRECT, transits=None, names=JOINED):
    view = StaticView(
        endpointslices.REFLECTOR,
        names=names,
        local=(service(**annotations),),
        transits=transits or {},
    )
    return endpointslices.outgoing(source, view)


def told(remote):
    return {
        each["hostname"]: each["addresses"][0] for each in remote["spec"]["template"]["endpoints"]
    }


def test_members_at_a_third_cluster_are_told_beside_this_clusters_and_by_their_names():
    """Even those whose addresses are, as texts, the same as this cluster's."""
    own, theirs = out(slice_of(*MEMBERS)).remote
    assert told(own) == {"db-0": "10.244.0.5"}
    assert "liqo.io/direct-connections-data" not in own["metadata"]["annotations"]
    assert told(theirs) == {"db-2": "10.244.0.5", "db-3": "10.244.0.6"}
    assert theirs["metadata"]["name"].startswith("db-x7k2p-")
    assert theirs["metadata"]["labels"]["kubernetes.io/service-name"] == "db"
    assert theirs["metadata"]["annotations"] == {
        "liqo.io/direct-connections-data": (
            '{"clusterAddresses":{"turin":["10.244.0.5","10.244.0.6"]}}'
        )
    }
    assert theirs["spec"]["template"]["ports"] == own["spec"]["template"]["ports"]


def test_the_keys_by_which_this_cluster_knows_the_third_one_are_told():
    """So the peer sees where another cluster has that id there."""
    known = msgspec.structs.replace(NODES["turin"], keys=frozenset({"b", "a"}))
    names = msgspec.structs.replace(JOINED, elsewhere={**NODES, "turin": known})
    _, theirs = out(slice_of(MEMBERS[0], MEMBERS[2]), names=names).remote
    told = theirs["metadata"]["annotations"]["liqod.io/direct-connections-keys"]
    assert msgspec.json.decode(told) == {"turin": ["a", "b"]}


def test_the_way_through_this_cluster_is_told_as_one_of_its_own_endpoints():
    (only,) = out(slice_of(*MEMBERS), {}, {("turin", "10.71.0.5"): "10.70.0.9"}).remote
    assert told(only) == {"db-0": "10.244.0.5", "db-2": "10.70.0.9"}


def test_both_ways_are_told_where_both_may_be_and_the_peer_chooses():
    own, theirs = out(slice_of(*MEMBERS), transits={("turin", "10.71.0.5"): "10.70.0.9"}).remote
    assert told(own) == {"db-0": "10.244.0.5"}  # not twice
    assert told(theirs) == {"db-2": "10.244.0.5", "db-3": "10.244.0.6"}
    notes = theirs["metadata"]["annotations"]
    assert notes["liqod.io/transit-addresses"] == '{"10.244.0.5":"10.70.0.9"}'


def test_what_has_no_way_is_told_once_for_each_cluster_on_the_service():
    plan = out(slice_of(*MEMBERS, endpoint("10.73.0.5", "genoa", hostname="db-4")), {})
    (only,) = plan.remote
    assert told(only) == {"db-0": "10.244.0.5"}
    genoa, turin = plan.reasons
    assert "endpoints at genoa are not told to milan" in genoa.message
    assert "liqo.io/use-direct-connections" in turin.message
    for reason in plan.reasons:
        assert (reason.code, reason.expected, reason.governor) == ("EndpointElsewhere", True, True)
    governor = endpointslices.REFLECTOR.governor
    assert governor == Governor(
        reflector="services", kind=SERVICES, label="kubernetes.io/service-name"
    )


def test_an_endpoint_of_a_cluster_without_a_network_is_told_to_nobody():
    plan = out(slice_of(endpoint("10.73.0.5", "genoa", hostname="db-4")))
    assert plan.remote == ()
    assert "joined no network with genoa" in plan.reasons[0].message


def test_clients_that_use_their_own_alone_are_told_of_no_third_cluster():
    asked = {**DIRECT, "liqod.io/endpoint-preference": "own-only"}
    plan = out(slice_of(*MEMBERS), asked, {("turin", "10.71.0.5"): "10.70.0.9"})
    assert plan.remote == ()


@pytest.mark.parametrize(
    "key",
    [
        "liqo.io/direct-connections-data",
        "liqod.io/transit-addresses",
        "liqod.io/direct-connections-keys",
    ],
)
def test_nobody_who_writes_a_slice_here_says_whose_its_addresses_are(key):
    forged = {key: '{"clusterAddresses": {"genoa": ["10.244.0.5"]}}'}
    for remote in out(slice_of(*MEMBERS, **forged)).remote:
        assert "genoa" not in str(remote)
        assert key not in remote["metadata"]["annotations"] or told(remote).keys() == {
            "db-2",
            "db-3",
        }
    (only,) = out(slice_of(*MEMBERS, **forged), {}).remote
    assert key not in only["metadata"]["annotations"]


def test_the_slice_of_a_third_cluster_has_a_name_that_an_api_server_takes():
    source = slice_of(*MEMBERS)
    source["metadata"]["name"] = f"{'a' * 241}.{'b' * 11}"
    names = [each["metadata"]["name"] for each in out(source).remote]
    assert len(set(names)) == 2
    assert all(len(name) <= 253 and ".-" not in name for name in names)
