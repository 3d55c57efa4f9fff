"""A peer's plan on a real kernel: both clusters have the same addresses, in both families."""

import contextlib
import socket
import subprocess
from collections.abc import Iterator

import pytest

from liqod.network.dataplane.kernel.namespaces import enter
from liqod.network.dataplane.names import INSIDE_TABLE
from tests.netns import lab as labs
from tests.netns.lab import Lab, Pod, ask, echo, ping, run
from tests.testbed.netns import nft

pytestmark = [pytest.mark.netns, pytest.mark.network]

PORT = 8000


@pytest.fixture(scope="module")
def ours(lab: Lab) -> Pod:
    """A pod of rome's."""
    return lab.rome.pod("pod", 5)


@pytest.fixture(scope="module")
def same(lab: Lab) -> Pod:
    """The pod of milan's that has the same address."""
    return lab.milan.pod("same", 5)


@pytest.fixture(scope="module")
def theirs(lab: Lab) -> Pod:
    """Another pod of milan's."""
    return lab.milan.pod("pod", 7)


@pytest.mark.parametrize("kind", ["tcp", "udp"])
@pytest.mark.parametrize("alias", ["10.71.0.5", "fd00:10:71::5"])
def test_pods_with_the_same_address_talk_both_ways(
    ours: Pod, same: Pod, kind: str, alias: str
) -> None:
    """Each sees the other under its alias, and not as its own node: nothing masquerades."""
    with echo(same.namespace, PORT, kind):
        assert ask(ours.namespace, alias, PORT, kind) == alias
    with echo(ours.namespace, PORT, kind):
        assert ask(same.namespace, alias, PORT, kind) == alias


def test_the_way_out_of_the_cluster_is_masqueraded_as_before(lab: Lab, ours: Pod) -> None:
    with echo(lab.rome.host, PORT):
        assert ask(ours.namespace, labs.LAN_HOST, PORT) == labs.LAN_NODE


def test_a_node_is_seen_under_the_first_external_address(lab: Lab, theirs: Pod) -> None:
    with echo(theirs.namespace, PORT):
        assert ask(lab.rome.node, "10.71.0.7", PORT) == "10.72.0.0"


@pytest.mark.parametrize("kind", ["tcp", "udp"])
def test_a_lent_host_answers(lab: Lab, ours: Pod, kind: str) -> None:
    """It knows no way to an alias, and sees its own cluster's node."""
    with echo(lab.milan.host, PORT, kind):
        assert ask(ours.namespace, "10.72.0.5", PORT, kind) == labs.LAN_NODE
        assert ask(ours.namespace, "fd00:10:72::5", PORT, kind) == labs.LAN_NODE6


def test_a_host_that_is_not_masked_sees_the_peers_pod(lab: Lab, ours: Pod) -> None:
    """Only by a way to the aliases, which is its administrator's to give it."""
    host = lab.milan.host
    with echo(host, PORT):
        for asked, way, node, alias in (
            ("10.72.0.7", "10.71.0.0/16", labs.LAN_NODE, "10.71."),
            ("fd00:10:72::7", "fd00:10:71::/64", labs.LAN_NODE6, "fd00:10:71:"),
        ):
            with pytest.raises(OSError):  # noqa: PT011  # nothing, or that there is no route
                ask(ours.namespace, asked, PORT, timeout=0.5)
            run("ip", "-n", host, "route", "add", way, "via", node)
            try:
                assert ask(ours.namespace, asked, PORT).startswith(alias)
            finally:
                run("ip", "-n", host, "route", "delete", way)


class TestErrors:
    def test_a_closed_port_is_said_to_be(self, ours: Pod, theirs: Pod) -> None:
        for address in ("10.71.0.7", "fd00:10:71::7"):
            for kind in ("tcp", "udp"):
                with pytest.raises(ConnectionRefusedError):
                    ask(ours.namespace, address, PORT + 1, kind)

    def test_what_is_too_large_is_told_the_mtu(self, ours: Pod, theirs: Pod) -> None:
        room = labs.MTU - 28

        def told(address: str, size: int) -> str:
            """Returns the first answer to three requests: a kernel sends only so many errors a
            second."""
            tries = (ping(ours.namespace, address, size=size) for _ in range(3))
            return next((each for each in tries if each != "nothing"), "nothing")

        assert told("10.71.0.7", room) == "reply from 10.71.0.7"
        assert told("10.71.0.7", room + 2).startswith("3/4 ")
        assert told("10.71.0.7", room + 2).endswith(f"mtu {labs.MTU}")
        assert told("fd00:10:71::7", labs.MTU).endswith(f"mtu {labs.MTU}")

    def test_an_address_that_nobody_has_is_unreachable(self, ours: Pod, theirs: Pod) -> None:
        found = ping(ours.namespace, "10.71.0.99", timeout=8)
        assert found.startswith("3/1 from 10.71.0.99 ")

    def test_segments_fit(self, ours: Pod, theirs: Pod) -> None:
        """The server of a connection knows the segment size on which both ends agree."""

        def listen() -> socket.socket:
            made = socket.create_server(("", PORT))
            made.settimeout(5)
            return made

        with enter(theirs.namespace, listen) as listening:

            def connect() -> socket.socket:
                return socket.create_connection(("10.71.0.7", PORT), 5)

            with enter(ours.namespace, connect) as near, listening.accept()[0] as far:
                for end in (near, far):
                    size = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
                    assert size <= labs.MTU - 40


class TestHostilePod:
    """A pod of rome's sends what it should not."""

    def test_another_source_than_a_pods_arrives_under_the_one_for_all(
        self, lab: Lab, ours: Pod, theirs: Pod
    ) -> None:
        """A source that is none of this cluster's pods is seen as its first external address, at
        best."""
        rules = "counter forged { }; chain c { type filter hook input priority 0; "
        rules += "ip saddr 192.0.2.9 counter name forged; }; "
        run("nft", "-f", "-", stdin=f"table inet seen {{ {rules} }}", namespace=theirs.namespace)
        run("ip", "-n", ours.namespace, "addr", "add", "192.0.2.9/32", "dev", "eth0")
        try:
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    ask(ours.namespace, "10.71.0.7", PORT, "udp", source="192.0.2.9", timeout=0.2)
            assert labs.packets(theirs.namespace, "inet seen", "forged") == 0
            # And where the CNI lets it through at all, milan's gateway had nothing to refuse.
            assert lab.milan.dropped("spoofed") == 0
        finally:
            run("ip", "-n", ours.namespace, "addr", "del", "192.0.2.9/32", "dev", "eth0")
            run("nft", "delete", "table", "inet", "seen", namespace=theirs.namespace)

    @pytest.mark.parametrize(
        "address", ["169.254.18.1", "169.254.18.2", "169.254.19.2", "169.254.19.1"]
    )
    def test_the_namespaces_own_addresses_are_not_reached(
        self, lab: Lab, ours: Pod, address: str
    ) -> None:
        """Neither probes nor their answers can be forged by a pod."""
        places = [cluster.names.namespace for cluster in (lab.rome, lab.milan)]
        with contextlib.ExitStack() as stack:
            for place in places:
                stack.enter_context(echo(place, 12345, "udp"))
            with pytest.raises(OSError, match=r"timed out|unreachable|refused"):
                ask(ours.namespace, address, 12345, "udp", timeout=0.3)

    def test_who_has_no_right_enters_no_namespace(self, lab: Lab) -> None:
        """The name may be read by all."""
        place = f"/run/netns/{lab.rome.names.namespace}"
        command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        done = subprocess.run(
            [*command, "nsenter", f"--net={place}", "true"], capture_output=True, check=False
        )
        assert done.returncode != 0
        assert b"Operation not permitted" in done.stderr


class TestHostile:
    """Milan's gateway is somebody else's: it sends whatever it likes into the tunnel."""

    @pytest.fixture(scope="class", autouse=True)
    def gateway(self, lab: Lab, ours: Pod) -> Iterator[None]:
        names = lab.milan.names
        place = names.namespace
        run("nft", "flush", "ruleset", namespace=place)
        for address in ("10.99.0.1", "10.244.0.9", "10.70.0.9", "192.0.2.1"):
            run("ip", "-n", place, "addr", "add", f"{address}/32", "dev", "lo")
        way = ["via", "169.254.18.1", "dev", names.tunnel]
        run("ip", "-n", place, "route", "add", "default", *way)
        yield
        run("ip", "-n", place, "route", "del", "default", *way)
        run("nft", "delete", "table", *INSIDE_TABLE.split(), namespace=place, check=False)
        lab.milan.changes()

    def test_a_source_that_is_not_the_peers_is_dropped(self, lab: Lab, ours: Pod) -> None:
        before = lab.rome.dropped("spoofed")
        with echo(ours.namespace, PORT, "udp"):
            assert self.sent(lab, "10.244.0.9", ours.address) == "10.71.0.9"
            for forged in ("10.99.0.1", "192.0.2.1"):
                with pytest.raises(TimeoutError):
                    self.sent(lab, forged, ours.address)
        assert lab.rome.dropped("spoofed") == before + 2

    @pytest.mark.parametrize(
        "target",
        [
            pytest.param(labs.LAN_NODE, id="node"),
            pytest.param(labs.LAN_HOST, id="host that was not lent by this address"),
            pytest.param("10.70.0.6", id="external address that was not lent"),
            pytest.param("10.70.0.0", id="address of unknown sources"),
            pytest.param("10.96.0.1", id="service"),
            pytest.param("169.254.169.254", id="metadata"),
            pytest.param("169.254.19.1", id="the pair's other end"),
            pytest.param("10.71.0.5", id="alias of its own, and back"),
        ],
    )
    def test_a_destination_that_was_not_lent_is_dropped(
        self, lab: Lab, ours: Pod, target: str
    ) -> None:
        before = lab.rome.dropped("strangers")
        with (
            echo(lab.rome.node, PORT, "udp"),
            echo(lab.rome.host, PORT, "udp"),
            pytest.raises(TimeoutError),
        ):
            self.sent(lab, "10.244.0.9", target)
        assert lab.rome.dropped("strangers") == before + 1

    def test_the_node_is_no_pod_although_it_has_an_address_among_them(
        self, lab: Lab, ours: Pod
    ) -> None:
        """The bridge's own address is the node's: kubelets and API servers listen on all."""
        before = lab.rome.refused()
        with echo(lab.rome.node, PORT), pytest.raises(TimeoutError):
            self.sent(lab, "10.244.0.9", "10.244.0.1", "tcp")
        assert lab.rome.refused() > before
        # By echoes the other side sees that its packets come through, and no more of them.
        place = lab.milan.names.namespace
        assert ping(place, "10.244.0.1", source="10.244.0.9") == "reply from 10.244.0.1"
        for other in (labs.LAN_NODE, "169.254.19.1"):
            assert ping(place, other, source="10.244.0.9", timeout=0.3) == "nothing"

    def test_a_node_port_is_no_pod_either(self, lab: Lab, ours: Pod) -> None:
        """It is led elsewhere before anybody looks at what is for the node itself."""
        hook = "type nat hook prerouting priority dstnat"
        rule = f"fib daddr type local udp dport 30080 dnat ip to {labs.LAN_HOST}:{PORT}"
        nft(lab.rome.node, f"table inet kubeproxy {{ chain services {{ {hook}; {rule}; }}; }}")
        before = lab.rome.refused()
        try:
            with echo(lab.rome.host, PORT, "udp"):
                assert ask(ours.namespace, "10.244.0.1", 30080, "udp") == labs.LAN_NODE
                with pytest.raises(TimeoutError):
                    self.sent(lab, "10.244.0.9", "10.244.0.1", port=30080)
        finally:
            run("nft", "delete", "table", "inet", "kubeproxy", namespace=lab.rome.node)
        assert lab.rome.refused() == before + 1

    def test_the_gateway_answers_probes_alone(self, lab: Lab, ours: Pod) -> None:
        before = lab.rome.dropped("strangers")
        inside = lab.rome.names.namespace
        with echo(inside, 12345, "udp"), echo(inside, PORT, "udp"):
            assert self.sent(lab, "169.254.18.2", "169.254.18.1", port=12345) == "169.254.18.2"
            with pytest.raises(TimeoutError):
                self.sent(lab, "169.254.18.2", "169.254.18.1")
        assert lab.rome.dropped("strangers") == before + 1

    def test_a_flood_of_probes_is_cut(self, lab: Lab, ours: Pod) -> None:
        def flood() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
                for _ in range(2000):
                    made.sendto(b"{}", ("169.254.18.1", 12345))

        enter(lab.milan.names.namespace, flood)
        assert lab.rome.dropped("flooded") > 1000

    @staticmethod
    def sent(lab: Lab, source: str, target: str, kind: str = "udp", port: int = PORT) -> str:
        place = lab.milan.names.namespace
        return ask(place, target, port, kind, source=source, timeout=0.5)


class TestWithoutAWay:
    """The pair is gone, by somebody's hand."""

    def test_nothing_leaves_by_another_way(self, lab: Lab, ours: Pod, theirs: Pod) -> None:
        """The node's default route leads to the host."""
        run("ip", "-n", lab.rome.node, "link", "set", lab.rome.names.veth, "down")
        try:
            found = ping(ours.namespace, "10.71.0.7", timeout=2)
            assert found.startswith("3/1 from 10.244.0.1 ")
        finally:
            changes = lab.rome.changes()
        assert any("set up" in change for change in changes)
        assert ping(ours.namespace, "10.71.0.7") == "reply from 10.71.0.7"


def test_an_applied_plan_is_what_the_kernel_has(lab: Lab) -> None:
    assert lab.rome.changes() == []
    assert lab.milan.changes() == []
