"""ConfigMaps, Secrets, Services and EndpointSlices at a peer."""

import msgspec
import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS, ENDPOINT_SLICES, SECRETS, SERVICES
from liqod.model.network.ranges import ClusterCidrs, PeerRanges
from liqod.plugins.contracts import NOTHING, Refusal, VirtualNode
from liqod.plugins.crossing import crossing_labels
from liqod.plugins.reflectors import configmaps, endpointslices, secrets, services
from simulator.suites import NAMES, ReflectorContract, StaticView

QUIET = msgspec.structs.replace(
    NAMES,
    labels_not_reflected=frozenset({"secret-label"}),
    annotations_not_reflected=frozenset({"cloud.google.com/neg"}),
)


def manifest(kind, name, labels=None, annotations=None, **more):
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "ownerReferences": [{"uid": "x"}],
            "finalizers": ["y"],
            "labels": {"app": "web", **(labels or {})},
            "annotations": {"note": "x", **(annotations or {})},
        },
        **more,
    }


def out(reflector, source, names=NAMES, local=()):
    return reflector.outgoing(source, StaticView(reflector, names=names, local=local))


def only(reflector, source, **more):
    (wanted,) = out(reflector, source, **more).remote
    return wanted


CONF = manifest(CONFIG_MAPS, "conf", data={"a": "1"}, immutable=True)
ROOT_CA = manifest(CONFIG_MAPS, "kube-root-ca.crt", data={"ca.crt": "PEM"})
CRED = manifest(SECRETS, "cred", data={"password": "aHVudGVyMg=="}, type="Opaque")
TOKEN = manifest(
    SECRETS,
    "token",
    annotations={"kubernetes.io/service-account.name": "robot", "liqo.io/allow-reflection": "true"},
    data={"token": "dG9rZW4="},
    type="kubernetes.io/service-account-token",
)
WEB = manifest(
    SERVICES,
    "web",
    spec={
        "type": "NodePort",
        "selector": {"app": "web"},
        "clusterIP": "10.20.0.1",
        "clusterIPs": ["10.20.0.1"],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "sessionAffinity": "None",
        "trafficDistribution": "PreferClose",
        "loadBalancerClass": "x",
        "ports": [
            {"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080, "nodePort": 30080}
        ],
    },
    status={"loadBalancer": {}},
)
HEADLESS = manifest(SERVICES, "headless", spec={"clusterIP": "None", "selector": {"app": "web"}})
SLICE = manifest(
    ENDPOINT_SLICES,
    "web-p2nkh",
    labels={"kubernetes.io/service-name": "web"},
    annotations={"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:00Z"},
    addressType="IPv4",
    endpoints=[
        {
            "addresses": ["10.10.0.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": "worker-1",
            "zone": "a",
            "targetRef": {"kind": "Pod", "name": "web-1", "namespace": "shop", "uid": "u1"},
        },
        {"addresses": ["10.30.0.9"], "conditions": {"ready": True}, "nodeName": "milan"},
        {"addresses": ["192.0.2.7"], "conditions": {"ready": False}},
    ],
    ports=[{"name": "http", "port": 8080, "protocol": "TCP"}],
)


class TestConfigMapsKeepTheContract(ReflectorContract):
    reflector = configmaps.REFLECTOR
    sources = (CONF, ROOT_CA)


class TestSecretsKeepTheContract(ReflectorContract):
    reflector = secrets.REFLECTOR
    sources = (CRED, TOKEN)


class TestServicesKeepTheContract(ReflectorContract):
    reflector = services.REFLECTOR
    sources = (WEB, HEADLESS)
    names = QUIET


def test_the_class_of_a_load_balancer_is_the_peer_s():
    balanced = manifest(SERVICES, "web", spec={"type": "LoadBalancer", "loadBalancerClass": "here"})

    def there(source, classes=None, **options):
        nodes = {"milan": VirtualNode(name="milan", slice="milan", load_balancer_class="offered")}
        names = msgspec.structs.replace(QUIET, nodes=nodes)
        settings = services.ServiceSettings(classes=classes or {})
        seen = StaticView(services.REFLECTOR, names=names, settings=settings, **options)
        [remote] = services.outgoing(source, seen).remote
        return remote["spec"].get("loadBalancerClass")

    assert there(balanced) == "offered"
    assert there(balanced, {"here": "mapped"}) == "mapped"
    assert there(balanced, {"here": "mapped", "milan/here": "milans"}) == "milans"
    assert there(WEB) is None
    made_without = Refusal(
        422, "spec.loadBalancerClass: may not change once set", SERVICES, retried=False
    )
    assert there(balanced, refusals=(made_without,)) is None


class TestEndpointSlicesKeepTheContract(ReflectorContract):
    reflector = endpointslices.REFLECTOR
    sources = (SLICE,)
    local = (WEB,)


@pytest.mark.parametrize(
    ("reflector", "source"),
    [(configmaps.REFLECTOR, CONF), (secrets.REFLECTOR, CRED), (services.REFLECTOR, WEB)],
)
def test_labels_and_annotations_cross_but_for_those_that_stay(reflector, source):
    noted = {
        **source,
        "metadata": {
            **source["metadata"],
            "labels": {"app": "web", "secret-label": "1"},
            "annotations": {
                "note": "x",
                "cloud.google.com/neg": "1",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "liqo.io/skip-reflection": "false",
            },
        },
    }
    meta = only(reflector, noted, names=QUIET)["metadata"]
    assert meta == {
        "name": source["metadata"]["name"],
        "labels": {"app": "web"},
        "annotations": {"note": "x"},
    }


def test_what_one_virtual_nodes_patch_keeps_at_home_stays_of_its_pods_alone():
    quiet = VirtualNode(name="quiet", slice="quiet", patch={"labelsNotReflected": ["app"]})
    names = msgspec.structs.replace(NAMES, nodes={**NAMES.nodes, "quiet": quiet})
    view = StaticView(configmaps.REFLECTOR, names=names)
    for node, kept in (("milan", {"app": "web"}), ("quiet", {}), ("worker", {})):
        placed = {**CONF, "spec": {"nodeName": node}}
        assert crossing_labels(placed, view) == kept
    assert crossing_labels(CONF, view) == {}


def test_a_config_map_crosses_verbatim():
    wanted = only(configmaps.REFLECTOR, CONF)
    assert (wanted["data"], wanted["immutable"]) == ({"a": "1"}, True)


@pytest.mark.parametrize(("consumer", "name"), [("rome", "rome"), ("barcelona", "barce")])
def test_the_root_ca_has_another_name_there(consumer, name):
    names = msgspec.structs.replace(NAMES, consumer=consumer)
    wanted = only(configmaps.REFLECTOR, ROOT_CA, names=names)
    assert wanted["metadata"]["name"] == f"kube-root-ca.crt.{name}"


def test_nothing_else_takes_the_name_of_the_root_ca_there():
    plan = out(configmaps.REFLECTOR, manifest(CONFIG_MAPS, "kube-root-ca.crt.rome", data={}))
    assert plan.remote == ()
    assert [(each.code, each.expected) for each in plan.reasons] == [("NameReserved", False)]
    other = manifest(CONFIG_MAPS, "kube-root-ca.crt.turin", data={})
    assert only(configmaps.REFLECTOR, other)["metadata"]["name"] == "kube-root-ca.crt.turin"


def test_a_secret_crosses_verbatim():
    wanted = only(secrets.REFLECTOR, CRED)
    assert (wanted["data"], wanted["type"]) == ({"password": "aHVudGVyMg=="}, "Opaque")


def test_an_account_token_crosses_only_when_asked_for_and_is_plain_there():
    wanted = only(secrets.REFLECTOR, TOKEN)
    assert wanted["type"] == "Opaque"
    assert wanted["metadata"]["labels"]["offloading.liqo.io/service-account-name"] == "robot"
    assert "kubernetes.io/service-account.name" not in wanted["metadata"]["annotations"]
    silent = manifest(SECRETS, "token", type=secrets.TOKEN_TYPE, data={})
    assert out(secrets.REFLECTOR, silent) == NOTHING


def test_a_service_keeps_what_means_the_same_there():
    assert only(services.REFLECTOR, WEB)["spec"] == {
        "type": "NodePort",
        "selector": {"app": "web"},
        "ipFamilyPolicy": "SingleStack",
        "sessionAffinity": "None",
        "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}],
    }
    assert only(services.REFLECTOR, HEADLESS)["spec"]["clusterIP"] == "None"


@pytest.mark.parametrize(
    ("families", "theirs", "crosses"),
    [
        (["IPv6"], ("10.10.0.0/16", "fd00::/56"), ["IPv6"]),
        (["IPv6", "IPv4"], ("10.10.0.0/16", "fd00::/56"), ["IPv6", "IPv4"]),
        (["IPv6"], ("10.10.0.0/16",), None),
        (["IPv6"], ("fd00::/56",), None),
        (["IPv4", "IPv6"], ("10.10.0.0/16", "fd00::/56"), None),
        (["IPv6"], None, None),
    ],
)
def test_a_service_of_ipv6_is_one_where_the_peer_would_make_another(families, theirs, crosses):
    service = {**WEB, "spec": {**WEB["spec"], "ipFamilies": families}}
    ranges = None if theirs is None else PeerRanges(peer=ClusterCidrs(pod=theirs))
    names = msgspec.structs.replace(NAMES, pod_network="tunnel", ranges=ranges)
    (wanted,) = out(services.REFLECTOR, service, names=names).remote
    assert wanted["spec"].get("ipFamilies") == crosses


def test_a_node_port_is_asked_for_where_the_service_says_so():
    forced = manifest(
        SERVICES,
        "web",
        annotations={"liqo.io/force-remote-node-port": "true"},
        spec=WEB["spec"],
    )
    assert only(services.REFLECTOR, forced)["spec"]["ports"][0]["nodePort"] == 30080


def test_the_api_servers_own_service_stays_at_home():
    names = msgspec.structs.replace(NAMES, namespace="default")
    assert out(services.REFLECTOR, manifest(SERVICES, "kubernetes"), names=names) == NOTHING


def test_a_slice_crosses_without_the_endpoints_that_are_there_already():
    wanted = only(endpointslices.REFLECTOR, SLICE)
    assert wanted["kind"] == "ShadowEndpointSlice"
    assert wanted["metadata"]["labels"] == {
        "app": "web",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice.reflection.liqo.io",
    }
    assert wanted["metadata"]["annotations"] == {"note": "x"}
    assert wanted["spec"]["template"] == {
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": ["10.10.0.1"],
                "zone": "a",
                "conditions": {"ready": True},
                "nodeName": "rome",
                "targetRef": {
                    "kind": "RemotePod",
                    "name": "web-1",
                    "namespace": "shop",
                    "uid": "u1",
                },
            },
            {"addresses": ["192.0.2.7"], "conditions": {"ready": False}, "nodeName": "rome"},
        ],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }


@pytest.mark.parametrize("endpoints", [None, []])
def test_a_slice_without_endpoints_crosses_as_it_is(endpoints):
    """Liqo's own case; where all that there are stay out, there is nothing to be told."""
    wanted = only(endpointslices.REFLECTOR, {**SLICE, "endpoints": endpoints})
    assert wanted["spec"]["template"]["endpoints"] == []
    there = [each for each in SLICE["endpoints"] if each.get("nodeName") == "milan"]
    assert there
    assert out(endpointslices.REFLECTOR, {**SLICE, "endpoints": there}).remote == ()


def test_endpoints_that_are_names_stay_and_say_so():
    named = {**SLICE, "addressType": "FQDN", "endpoints": [{"addresses": ["db.example.org"]}]}
    plan = out(endpointslices.REFLECTOR, named)
    assert plan.remote == ()
    assert "FQDN" in plan.reasons[0].message


def test_a_slice_that_no_peer_reads_crosses_and_says_so():
    hints = {"forZones": [{"name": "z" * 63}] * 16}
    many = [{"addresses": [f"10.10.{1 + (n >> 8)}.{n & 255}"], "hints": hints} for n in range(1000)]
    plan = out(endpointslices.REFLECTOR, {**SLICE, "endpoints": many})
    assert len(plan.remote) == 1  # what is made of it already is not taken away for it
    assert [each.code for each in plan.reasons] == ["TooLarge"]


def test_no_endpoints_cross_where_addresses_do_not():
    names = msgspec.structs.replace(NAMES, pod_network="none")
    assert out(endpointslices.REFLECTOR, SLICE, names=names) == NOTHING


JOINED = PeerRanges(
    own=ClusterCidrs(pod=("10.10.0.0/16",), external=("10.70.0.0/16",)),
    peer=ClusterCidrs(pod=("10.10.0.0/16",)),
    seen=ClusterCidrs(pod=("10.71.0.0/16",)),
    lent={"10.70.0.4": "192.0.2.7"},
)


def through(ranges, *addresses):
    """The addresses that cross a tunnel of these ranges, and the reasons."""
    names = msgspec.structs.replace(NAMES, pod_network="tunnel", ranges=ranges)
    each = [{"addresses": [address]} for address in addresses]
    plan = out(endpointslices.REFLECTOR, {**SLICE, "endpoints": each}, names=names)
    found = [
        address
        for wanted in plan.remote
        for endpoint in wanted["spec"]["template"]["endpoints"]
        for address in endpoint["addresses"]
    ]
    return found, [each.message for each in plan.reasons]


def test_a_peer_behind_a_tunnel_is_told_addresses_as_they_are_used_here():
    assert through(JOINED, "10.10.0.1") == (["10.10.0.1"], [])


def test_a_host_that_is_lent_crosses_by_the_address_that_stands_for_it():
    assert through(JOINED, "192.0.2.7") == (["10.70.0.4"], [])


@pytest.mark.parametrize("address", ["192.0.2.8", "10.71.0.3", "127.0.0.1"])
def test_what_no_ip_lends_stays_and_says_so(address):
    found, (reason,) = through(JOINED, address)
    assert found == []
    assert address in reason


def test_nothing_crosses_a_tunnel_before_its_ranges_are_known():
    assert through(None, "10.10.0.1") == ([], [])


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "224.0.0.1", "0.0.0.0", "::1"])
def test_an_address_that_means_nothing_elsewhere_is_refused_by_name(address):
    odd = {**SLICE, "endpoints": [{"addresses": [address]}]}
    plan = out(endpointslices.REFLECTOR, odd)
    assert plan.remote == ()
    assert f"the address {address} does not cross:" in plan.reasons[0].message


def test_the_service_governs_its_slices():
    governor = endpointslices.REFLECTOR.governor
    assert governor is not None
    assert (governor.reflector, governor.label) == ("services", "kubernetes.io/service-name")
