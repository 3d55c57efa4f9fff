"""Objects that `liqoctl` writes are read here, and are what `liqod peer` writes itself."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from liqod.network.gateway.gatewayobjects import endpoints_of
from liqod.network.gateway.gatewayplan import judged, port_of
from liqod.network.gateway.publickeys import taken
from liqod.plugins import loader
from liqod.procedures import networkobjects
from liqod.procedures.networkobjects import NetworkOptions
from liqod.resources.networking import (
    Configuration,
    GatewayClient,
    GatewayEndpoint,
    GatewayServer,
    PublicKey,
    Ranges,
)
from tests.unit.network.gateways import HERE, PEER, PLACE

USUAL = {each.name: each.port for each in loader.load(sources=loader.built_in()).network}
FILE = Path(__file__).parents[2] / "fixtures" / "network" / "liqoctl.yaml"
WRITTEN = {each["kind"]: each for each in yaml.safe_load(FILE.read_text())}


def read(type_: type[Any]) -> Any:
    return msgspec.convert(WRITTEN[type_.KIND.name], type_)


def test_each_is_taken():
    server, client = read(GatewayServer), read(GatewayClient)
    assert judged([server], PEER, HERE) == (server, {})
    assert judged([client], PEER, HERE) == (client, {})
    assert port_of(server, [server]) == 51840
    assert endpoints_of(client) == ("192.0.2.7:51840",)
    key = read(PublicKey)
    assert taken([key], PEER, PLACE, b"").key == key.spec.public_key
    assert read(Configuration).spec.remote.cidr.pod == ("10.244.0.0/16",)


def same(kind: str, made: dict[str, Any]) -> None:
    """An object made here equals the one of `liqoctl`; it leaves out what is empty."""
    wanted = WRITTEN[kind]
    assert made["metadata"]["name"] == wanted["metadata"]["name"]
    assert made["metadata"]["labels"] == wanted["metadata"]["labels"]
    assert made["spec"] == {key: value for key, value in wanted["spec"].items() if value}


def test_liqod_peer_writes_the_same():
    ranges = Ranges(("10.244.0.0/16",), ("10.70.0.0/16",))
    same("Configuration", networkobjects.configuration("milan", ranges))
    asked = NetworkOptions()
    same("GatewayServer", networkobjects.gateway_server("milan", "liqo", asked))
    endpoint = asked.dialled(GatewayEndpoint(("192.0.2.7",), 51840, protocol="UDP"))
    same("GatewayClient", networkobjects.gateway_client("milan", "liqo", asked, endpoint))
    key = read(PublicKey).spec.public_key
    made = networkobjects.public_key("milan", key, read(GatewayServer))
    same("PublicKey", made)
    assert (
        made["metadata"]["ownerReferences"] == WRITTEN["PublicKey"]["metadata"]["ownerReferences"]
    )


def test_other_wishes_are_written_where_liqo_has_them():
    asked = NetworkOptions(
        service_type="NodePort",
        port=5000,
        node_port=30500,
        load_balancer_ip="203.0.113.9",
        client_address="gw.example.org",
        client_port=443,
        mtu=1400,
        backend="vxlan",
    )
    spec = networkobjects.gateway_server("milan", "net", asked)["spec"]
    assert spec["endpoint"] == {
        "port": 5000,
        "serviceType": "NodePort",
        "nodePort": 30500,
        "loadBalancerIP": "203.0.113.9",
    }
    assert (spec["mtu"], spec["serverTemplateRef"]["name"]) == (1400, "vxlan-server")
    assert spec["serverTemplateRef"]["namespace"] == "net"
    told = asked.dialled(GatewayEndpoint(("192.0.2.7",), ports=(51840,), protocol="UDP"))
    assert (told.addresses, told.port) == (("gw.example.org",), 443)


@pytest.mark.parametrize("backend", [*USUAL, "other"])
def test_a_server_of_every_backend_has_a_port_since_its_definition_takes_none_without(backend: str):
    made = networkobjects.gateway_server("milan", "liqo", NetworkOptions(backend=backend))
    assert made["spec"]["endpoint"]["port"] == USUAL.get(backend, networkobjects.PORT)
