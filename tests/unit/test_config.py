"""The configuration file: strict, with errors that name the key and the nearest known one."""

import pytest

from liqod import config
from liqod.errors import ConfigError


def test_nothing_is_a_valid_configuration():
    assert config.parse("") == config.Config()


def test_values_are_taken():
    parsed = config.parse(
        """
        [cluster]
        kubeconfig = "/etc/liqod/kubeconfig"
        [[peers]]
        id = "milan"
        pod_network = "routed"
        pod_cidrs = ["10.245.0.0/16"]
        """
    )
    assert parsed.cluster.kubeconfig == "/etc/liqod/kubeconfig"
    assert parsed.peer("milan").pod_network == "routed"
    assert parsed.peer("turin").pod_network == "tunnel"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[clutser]", "unknown key clutser; did you mean cluster?"),
        ("[cluster]\nkubeconf = 'x'", "unknown key cluster.kubeconf; did you mean kubeconfig?"),
        ("[[peers]]\nid = 'a'\npod_net = 'x'", "did you mean pod_network?"),
        ("[cluster\n", "is not TOML"),
        ("[kubelet]\nport = 10250", "10250 is the real kubelet's"),
        ("[kubelet]\nport = 70000", "kubelet.port"),
        ("[certificates]\nlifetime = 60", "600 seconds"),
        ("[certificates]\nrenew_at = 1.5", "renew_at"),
        ("[[peers]]\nid = 'Not An Id'", "no cluster id"),
        ("[[peers]]\nid = 'a'\n[[peers]]\nid = 'a'", "more than one entry"),
        ("[[peers]]\nid = 'a'\npod_network = 'x'", "peers"),
        ("[[peers]]\nid = 'a'\npod_network = 'routed'", 'pod_cidrs = ["10.245.0.0/16"]'),
        ("[peer_defaults]\npod_network = 'routed'", "peer_defaults: with pod_network"),
    ],
)
def test_mistakes_are_named(text: str, message: str):
    with pytest.raises(ConfigError) as caught:
        config.parse(text)
    assert message in str(caught.value)


def test_the_environment_wins_over_the_file():
    parsed = config.parse("[cluster]\nnamespace = 'a'", {"LIQOD_NAMESPACE": "b", "HOME": "/x"})
    assert parsed.cluster.namespace == "b"


def test_the_file_goes_before_what_a_pod_is_told_of_its_own_address():
    told = {"LIQOD_KUBELET_HOST": "10.0.0.7"}
    assert config.parse("", told).kubelet.host == "10.0.0.7"
    assert config.parse("[kubelet]\nhost = '192.0.2.10'", told).kubelet.host == "192.0.2.10"


def test_an_address_of_the_node_that_is_none_is_refused():
    told = {"LIQOD_NODE_ADDRESS": "192.0.2.5"}
    assert config.parse("", told).network.node_address == "192.0.2.5"
    with pytest.raises(ConfigError, match="node_address is 'rome': no IP address"):
        config.parse("[network]\nnode_address = 'rome'")


def test_what_the_deployment_says_of_its_server_comes_last():
    said = config.parse("", {}, advertise="https://a")
    assert said.api_server.advertise == "https://a"
    text = "[api_server]\nadvertise = 'https://b'"
    assert config.parse(text, advertise="https://a").api_server.advertise == "https://b"
    environ = {"LIQOD_ADVERTISE": "https://c"}
    assert config.parse("", environ, advertise="https://a").api_server.advertise == "https://c"


def test_an_unknown_variable_is_named():
    with pytest.raises(ConfigError, match=r"unknown variable LIQOD_NAMESPCE.*LIQOD_NAMESPACE"):
        config.parse("", {"LIQOD_NAMESPCE": "x"})


def test_the_variables_of_plugins_are_their_own():
    assert config.parse("", {"LIQOD_PLUGIN_DNS_TOKEN": "x"}) == config.parse("")


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ConfigError, match="cannot read the configuration"):
        config.load(str(tmp_path / "none.toml"), {})


def test_a_mistake_in_a_file_names_the_file(tmp_path):
    path = tmp_path / "liqod.toml"
    path.write_text("[clutser]")
    with pytest.raises(ConfigError, match=r"liqod\.toml"):
        config.load("", {"LIQOD_CONFIG": str(path)})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[peer_defaults]\npod_cidrs = ["10.0.0.1"]', "peer_defaults.pod_cidrs: '10.0.0.1' is no"),
        ('[[peers]]\nid = "a"\npod_cidrs = ["x/8"]', "peers.pod_cidrs: 'x/8' is no network"),
        ('[peer_defaults]\nbelieved_labels = ["re*"]', "peer_defaults.believed_labels: 're.*' is"),
        ('[[peers]]\nid = "a"\ndirect_connections = ["x."]', "peers.direct_connections: a cluster"),
    ],
)
def test_lists_of_what_peers_may_do_are_checked(text: str, problem: str):
    with pytest.raises(ConfigError, match=problem):
        config.parse(text)


def test_a_peer_without_an_entry_has_the_defaults():
    parsed = config.parse(
        '[peer_defaults]\npod_cidrs = ["10.1.0.0/16"]\nbelieved_labels = ["region"]\n'
        'direct_connections = ["*"]'
    )
    found = parsed.peer("milan")
    assert (found.pod_cidrs, found.believed_labels) == (("10.1.0.0/16",), ("region",))
    assert found.direct_connections == ("*",)
    assert config.parse("").peer("milan").direct_connections == ()


def test_policies_and_addresses_of_the_handshake_are_taken():
    parsed = config.parse(
        f"""
        [handshake]
        advertise = ["milan.example:6446", "[fd00::1]:6446"]
        [[policies]]
        action = "auto"
        cluster_id = "rome*"
        max_resources = {{cpu = "8"}}
        [[peers]]
        id = "milan"
        addresses = ["milan.example:6446"]
        key = "{"0" * 64}"
        """
    )
    assert parsed.handshake.port == 6446
    assert parsed.policies[0].max_resources == {"cpu": "8"}
    assert parsed.peer("milan").addresses == ("milan.example:6446",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[handshake]\nadvertise = ['milan']", "'milan' is no host:port"),
        ("[handshake]\nadvertise = ['milan:0']", "no host:port"),
        ("[handshake]\nadvertise = ['mi lan:1']", "no host:port"),
        ("[handshake]\nproxy = 'ftp://x'", "handshake.proxy"),
        ("[handshake]\nprot = 1", "unknown key handshake.prot; did you mean port?"),
        ("[[policies]]\naction = 'allow'", "allow"),
        ("[[policies]]\ncluster_id = 'a'", "action"),
        ("[[policies]]\naction = 'ask'\nkee = 'x'", "did you mean key?"),
        ("[[policies]]\naction = 'ask'\nkey = 'abc'", "64 hexadecimal digits"),
        ("[[policies]]\naction = 'ask'\nlabel = 'abc'", "write key=pattern"),
        ("[[policies]]\naction = 'ask'\nmax_resources = {cpu = '1'}", "and nothing else"),
        ("[[policies]]\naction = 'auto'\nmax_resources = {cpu = '-1'}", "no quantity for cpu"),
        ("[[peers]]\nid = 'a'\naddresses = ['a:1']", "addresses and no key"),
        ("[[peers]]\nid = 'a'\nresources = {cpu = 'x'}", "no quantity for cpu"),
    ],
)
def test_mistakes_of_the_handshake_are_named(text: str, message: str):
    with pytest.raises(ConfigError) as caught:
        config.parse(text)
    assert message in str(caught.value)


def test_a_cni_that_knows_where_pods_are_has_its_ranges_told():
    said = "[network]\nnode_pods = 'cni'\n"
    with pytest.raises(ConfigError, match=r"\[cluster\] pod_cidrs"):
        config.parse(said)
    assert config.parse(f"{said}[cluster]\npod_cidrs = ['192.168.0.0/16']\n")
    with pytest.raises(ConfigError, match="node_pods"):
        config.parse("[network]\nnode_pods = 'calico'\n")


def test_transit_is_between_pairs_of_peers():
    told = config.parse('[network]\ntransit = [["milan", "turin"]]\n').network
    assert told.transit == (("milan", "turin"),)
    assert config.parse("").network.transit == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('transit = ["milan", "turin"]', "network.transit"),
        ('transit = [["milan"]]', "network.transit"),
        ('transit = [["milan", "turin", "oslo"]]', "network.transit"),
        ('transit = [["milan", "Turin"]]', "lower-case letters.* a pair is two ids of peers"),
        ('transit = [["milan", "*"]]', "lower-case letters"),
        ('transit = [["milan", "milan"]]', "milan is paired with itself; name two peers"),
        (f"transit = {[[f'a{each}', 'b'] for each in range(65)]}", "65 pairs are more than 64"),
        ("transit_rate = 0", r"network\.transit_rate: 1 to 30000"),
        ("transit_rate = 30001", r"network\.transit_rate: 1 to 30000"),
    ],
)
def test_a_pair_that_makes_no_sense_is_refused(line, words):
    with pytest.raises(ConfigError, match=words):
        config.parse(f"[network]\n{line}\n")
