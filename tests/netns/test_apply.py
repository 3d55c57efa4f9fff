"""A network namespace is made as a value says: no more, no less, and no second time."""

from __future__ import annotations

import json
import shutil
import socket
from functools import partial
from random import Random

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from liqod.errors import NetworkError
from liqod.netlink import NETFILTER, Netlink
from liqod.network.dataplane.kernel import legacytables, namespaces, ruleset
from liqod.network.dataplane.kernel.apply import change
from liqod.network.dataplane.values import ForeignLink, Namespace, Owned, Rule, Veth
from tests.netns.lab import run
from tests.netns.plans import MARK, OWNED, drawn, everything
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up
from tests.testbed.netns import Networks, fails, inside, nft, state

pytestmark = [pytest.mark.netns, pytest.mark.network]
NOTHING = Namespace()


def apply(name: str, want: Namespace, owned: Owned = OWNED) -> list[str]:
    return [each.text for each in namespaces.enter(name, partial(change, want, owned))]


def test_a_whole_plan_is_there_and_is_not_written_again(networks: Networks) -> None:
    here, there = networks.make("here"), networks.make("there")
    want = everything(there)
    assert apply(here, want)
    assert apply(here, want) == []
    said = state(here)
    assert len(said["rules"]) == 3 + 2 + 4
    assert len(said["routes"]) == 7
    assert len(said["neighbours"]) == 3
    assert len(said["nftables"]) == 2
    assert inside(here, "cat /proc/sys/net/ipv4/ip_forward").strip() == "1"


def test_taking_all_away_leaves_nothing(networks: Networks) -> None:
    here, there = networks.make("here"), networks.make("there")
    before = state(here)
    apply(here, everything(there))
    assert apply(here, NOTHING)
    assert state(here) == before
    assert apply(here, NOTHING) == []


def test_what_others_have_is_not_touched(networks: Networks) -> None:
    here, there = networks.make("here"), networks.make("there")
    for command in (
        # Else the kernel gives it an IPv6 address of its own a moment later.
        "ip link add br0 type bridge",
        "ip link set br0 addrgenmode none",
        "ip link set br0 up",
        "ip address add 192.0.2.1/24 dev br0",
        "ip link add lqv9 type veth peer name other9",
        "ip link set lqv9 addrgenmode none",
        "ip link set lqv9 up",
        "ip address add 192.0.3.1/24 dev lqv9",
        "ip neigh add 192.0.2.9 lladdr 02:00:00:00:09:09 dev br0 nud permanent",
        "ip route add 10.50.0.0/16 via 192.0.2.9",
        "ip route add 10.51.0.0/16 via 192.0.2.9 table 200",
        "ip rule add priority 18710 to 10.71.0.0/16 table 200",
        "ip rule add priority 500 fwmark 7 table 200",
        "ip rule add priority 18711 fwmark 7 table 18718",
        "ip -6 rule add priority 18790 to fd71::/64 table 200",
    ):
        inside(here, command)
    nft(here, "table inet other { chain c { ip saddr 1.2.3.4 drop; }; }; table ip liqod { }")
    before = state(here)
    apply(here, everything(there))
    with_ours = state(here)
    for part, entries in before.items():
        assert set(entries) <= set(with_ours[part]), part
    apply(here, NOTHING)
    assert state(here) == before


@settings(max_examples=12, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_whatever_was_applied_before_leaves_no_trace(networks: Networks, random: Random) -> None:
    here, fresh, there = (networks.make(label) for label in ("here", "fresh", "there"))
    apply(here, drawn(there, random))
    want = drawn(there, random)
    apply(here, want)
    assert apply(here, want) == []
    elsewhere = networks.make("elsewhere")
    apply(
        fresh,
        msgspec.structs.replace(
            want,
            links=tuple(
                msgspec.structs.replace(link, namespace=elsewhere)
                if hasattr(link, "namespace")
                else link
                for link in want.links
            ),
        ),
    )
    assert state(here) == state(fresh)


HARM = [
    "ip link delete lqv0",
    "ip link delete lqx",
    "ip link set lqv0 down",
    "ip link set lqx down",
    "ip link set lqv0 mtu 1280",
    "ip link set lqv0 address 02:00:00:00:99:99",
    "ip link set lqv0 alias somebody",
    "ip link set lqv1 name renamed0",
    "ip address flush dev lqv1",
    "ip address delete 10.9.0.1/24 dev lqv1",
    "ip address add 10.9.0.3/24 dev lqv1",
    "ip neigh flush all nud permanent",
    "ip neigh replace 169.254.19.2 lladdr 02:00:00:00:99:99 dev lqv0 nud permanent",
    "ip neigh replace 169.254.32.2 lladdr 02:00:00:00:99:99 dev lqx nud stale",
    "bridge fdb delete 02:00:00:00:00:06 dev lqx dst 192.0.2.6",
    "bridge fdb append 02:00:00:00:00:99 dev lqx dst 192.0.2.9",
    "ip route flush table 18718",
    "ip -6 route flush table 18718",
    "ip route delete 10.71.0.0/16 table 1073741831",
    "ip route replace 10.71.0.0/16 dev lqv1 table 1073741831",
    "ip route append 10.71.0.0/16 dev lqv1 table 1073741831",
    "ip route add 10.71.0.0/16 dev lqv1 metric 50 table 1073741831",
    "ip -6 route add fd71::/64 dev lqv1 metric 50 table 1073741831",
    "ip route add blackhole 10.71.3.0/24 table 18718",
    "ip route delete unreachable 10.99.0.0/16 table 1073741831",
    "ip route replace 10.71.0.0/16 via 169.254.19.2 dev lqv0 onlink mtu 900 table 1073741831",
    "ip rule delete priority 18710",
    "ip -6 rule delete priority 18710",
    "ip rule delete priority 18730",
    "ip rule add priority 18744 table 18718",
    "sysctl -qw net.ipv4.ip_forward=0",
    "nft flush ruleset",
    "nft delete table inet liqod",
    "nft flush table inet liqod",
    "nft flush chain inet liqod before",
    "nft insert rule inet liqod through accept",
    "nft add chain inet liqod more",
    "nft delete element inet liqod pods { 10.71.0.0/16 }",
    "nft add element inet liqod pods { 10.73.0.0/16 : 10.246.0.0/16 }",
    "nft delete set inet liqod liqod-seal",
    "nft add table inet liqod { flags dormant; }",
    "nft add counter inet liqod another",
    "nft chain inet liqod through { policy drop; }",
]


def test_what_somebody_harms_is_mended(networks: Networks) -> None:
    here, there = networks.make("here"), networks.make("there")
    want = everything(there)
    apply(here, want)
    healthy = state(here)
    for command in HARM:
        inside(here, command)
        assert apply(here, want), f"not mended: {command}"
        if "renamed0" in command:
            # It is somebody's now. Its other end had to go, and it with that.
            assert fails(here, "ip link show renamed0")
        assert state(here) == healthy, f"not as before: {command}"
        assert apply(here, want) == [], f"written again: {command}"


def test_what_counts_by_itself_is_no_harm(networks: Networks) -> None:
    here, there = networks.make("here"), networks.make("there")
    want = everything(there)
    apply(here, want)
    nft(here, "add element inet liqod seen { 192.0.2.1 }")
    fails(here, "ping -c 1 -W 0.1 127.0.0.1")
    assert apply(here, want) == []


def test_a_pair_whose_other_end_was_moved_is_made_anew(networks: Networks) -> None:
    here, there, stray = (networks.make(label) for label in ("here", "there", "stray"))
    want = everything(there)
    apply(here, want)
    inside(here, f"ip link set lqv0 netns {stray}")
    apply(here, want)
    assert fails(stray, "ip link show lqv0")
    assert apply(here, want) == []


def test_a_link_without_a_mark_is_taken_over(networks: Networks) -> None:
    """As it is left when its maker is killed between making and marking it."""
    here, there = networks.make("here"), networks.make("there")
    inside(here, f"ip link add lqv0 type veth peer name gw0 netns {there}")
    apply(here, everything(there))
    assert f'"{MARK}"' in "".join(state(here)["links"])


def test_what_is_anothers_is_refused(networks: Networks) -> None:
    here, there = networks.make("here"), networks.make("there")
    want = everything(there)
    apply(here, want)
    healthy = state(here)
    stranger = msgspec.structs.replace(OWNED, mark="liqod turin/milan")
    with pytest.raises(NetworkError, match="of liqod rome/milan"):
        apply(here, want, stranger)
    assert state(here) == healthy
    with pytest.raises(NetworkError, match="not of liqod rome/milan: rule 100"):
        apply(here, msgspec.structs.replace(want, rules=(Rule(100, 4, 18718),)))


def test_a_tunnels_link_is_set_up_and_never_deleted(networks: Networks) -> None:
    here = networks.make("here")
    want = Namespace(links=(ForeignLink("lqt0", 1300),))
    owned = msgspec.structs.replace(OWNED, links=("lqt0",))
    with pytest.raises(NetworkError, match="no interface lqt0"):
        apply(here, want, owned)
    inside(here, "ip tuntap add lqt0 mode tun")
    assert apply(here, want, owned) == ["link lqt0 set up with mtu 1300"]
    assert apply(here, want, owned) == []
    assert apply(here, NOTHING, owned) == []
    [link] = json.loads(inside(here, "ip -j link show lqt0"))
    assert link["mtu"] == 1300


def test_a_text_that_nft_refuses_changes_no_table(networks: Networks) -> None:
    here = networks.make("here")
    good = Namespace(tables={"inet liqod": "chain a { }"})
    apply(here, good)
    before = state(here)
    bad = Namespace(tables={"inet liqod": "chain b { }", "ip liqod_nat": "chain fwd { }"})
    with pytest.raises(NetworkError, match="nft refuses"):
        apply(here, bad)
    assert state(here) == before


def test_a_value_that_the_kernel_refuses_is_named(networks: Networks) -> None:
    here, there = networks.make("here"), networks.make("there")
    want = everything(there)
    multicast = Veth("lqv0", "01:00:5e:00:00:01", 1500, "gw0", there)
    with pytest.raises(NetworkError, match="lqv0"):
        apply(here, msgspec.structs.replace(want, links=(multicast,)))


def test_counters_go_on_where_their_table_is_written_anew(networks: Networks) -> None:
    name = networks.make("node")
    text = """
        counter seen { }
        counter never { }
        chain out { type filter hook output priority filter; udp dport 9 counter name seen; }
    """

    def send() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
            made.sendto(b"?", ("127.0.0.1", 9))

    def seen(counter: str) -> int:
        with Netlink(NETFILTER) as netlink:
            return ruleset.counter(netlink, "inet liqod", counter)[0]

    want = Namespace(tables={"inet liqod": text})
    namespaces.enter(name, partial(change, want, OWNED))
    for _ in range(3):
        namespaces.enter(name, send)
    assert namespaces.enter(name, partial(seen, "seen")) == 3
    other = Namespace(tables={"inet liqod": text + "chain more { }\n"})
    assert namespaces.enter(name, partial(change, other, OWNED))
    namespaces.enter(name, send)
    assert namespaces.enter(name, partial(seen, "seen")) == 4
    assert namespaces.enter(name, partial(seen, "never")) == 0
    # What it counts is no difference from what was written.
    assert namespaces.enter(name, partial(change, other, OWNED)) == []


@pytest.mark.parametrize("program", ["iptables-legacy", "ip6tables-legacy"])
def test_so_are_those_of_older_tables(networks: Networks, program: str) -> None:
    if shutil.which(program) is None:
        give_up(Unavailable(f"needs {program} (package iptables)"))
    name = networks.make("node")

    def drops() -> list[str]:
        return namespaces.enter(name, legacytables.forward_drops)

    # To look makes no table where there is none.
    assert drops() == []
    names = "ip6_tables_names" if program.startswith("ip6") else "ip_tables_names"
    assert run("cat", f"/proc/net/{names}", namespace=name) == ""
    run(program, "-P", "INPUT", "DROP", namespace=name)
    assert drops() == []
    run(program, "-A", "FORWARD", "-i", "lqv+", "-j", "ACCEPT", namespace=name)
    run(program, "-P", "FORWARD", "DROP", namespace=name)
    assert drops() == [f"{program} filter FORWARD"]
    run(program, "-P", "FORWARD", "ACCEPT", namespace=name)
    assert drops() == []


def test_chains_that_drop_what_passes_through_are_found(networks: Networks) -> None:
    name = networks.make("node")

    def drops() -> list[str]:
        with Netlink(NETFILTER) as netlink:
            return ruleset.forward_drops(netlink)

    chain = "table %s { chain %s { type filter hook %s priority 0; policy %s; }\n}\n"
    for told in (
        ("ip other", "FORWARD", "forward", "accept"),
        ("ip filter", "INPUT", "input", "drop"),
        ("bridge between", "FORWARD", "forward", "drop"),
    ):
        nft(name, chain % told)
    assert namespaces.enter(name, drops) == []
    nft(name, chain % ("ip filter", "FORWARD", "forward", "drop"))
    assert namespaces.enter(name, drops) == ["ip filter FORWARD"]
