"""Faults of a joined network, made in real kernels: each is named at its first layer.

Two daemons' components beside embedded API servers, WireGuard, pods in namespaces. After each the
layers below it are said to work, it is named, and nothing that depends on it is called good; where
it is repaired, all is good again.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.apimachinery.meta import Partial
from liqod.kube.selection import Selection
from liqod.model import ids
from liqod.model.view.networkfacts import NetworkFacts
from liqod.network.dataplane.names import ALIASES_PRIORITY, ALIASES_TABLE, INSIDE_TABLE
from liqod.network.timings import NetworkTimings
from liqod.plugins.checks.network import liqod_checks
from liqod.plugins.diagnosis import ClusterFacts, PeerFacts
from liqod.resources.networking import CONNECTIONS, PUBLIC_KEYS
from tests.netns.lab import ping, run
from tests.netns.test_joined_clusters import Site, two
from tests.simulated.borrower import eventually
from tests.simulated.network.test_networking import join
from tests.testbed import netns
from tests.testbed.errors import Unavailable
from tests.testbed.fixtures import give_up
from tests.unit.plugins.test_network_checks import LAYERS, first_failing, ladder

pytestmark = [pytest.mark.netns, pytest.mark.network, pytest.mark.usefixtures("networks")]

QUICK = NetworkTimings(measured_every=1.0, measured_again=0.2)


def known(site: Site) -> NetworkFacts:
    """Returns the network facts of that side's daemon."""
    facts = site.member.components.peers[site.names.peer_id].network.facts()
    assert facts is not None
    return facts


async def says(
    site: Site,
    layer: str,
    for_: Callable[[NetworkFacts], bool] = lambda found: True,
    *,
    seconds: float = 60.0,
) -> NetworkFacts:
    """Wait until that layer is the first to fail, for this; what is known then.

    That datagrams have come counts for 15 seconds (`ARRIVED`). What came before may still be why
    it fails at first, or nothing that is known yet.
    """
    verdicts: dict[str, str] = {}

    async def look() -> bool:
        verdicts.clear()
        verdicts.update(ladder(known(site)))
        return first_failing(verdicts) == layer and for_(known(site))

    try:
        await eventually(look, seconds=seconds)
    except trio.TooSlowError as error:
        raise AssertionError((layer, verdicts, known(site))) from error
    if layer and layer != "mtu":
        above = LAYERS[LAYERS.index(layer) + 1 :]
        assert "ok" not in {verdicts[each] for each in above}, verdicts
    return known(site)


async def well(*sites: Site) -> None:
    """Wait until every layer is good, on each side."""
    for site in sites:
        verdicts: dict[str, str] = {}

        async def look(site: Site = site, verdicts: dict[str, str] = verdicts) -> bool:
            verdicts.update(ladder(known(site)))
            return verdicts == dict.fromkeys(LAYERS, "ok")

        try:
            await eventually(look)
        except trio.TooSlowError:
            assert verdicts == dict.fromkeys(LAYERS, "ok"), known(site)


@asynccontextmanager
async def joined(
    program: str, folder: Path, timings: NetworkTimings = QUICK
) -> AsyncIterator[tuple[Site, Site]]:
    """rome and milan, joined, and every layer good."""
    async with two(program, folder, timings=timings) as (rome, milan):
        joining = await join(rome.member, milan.member)
        assert joining.without == ""
        await well(rome, milan)
        yield rome, milan


@contextmanager
def dropped(namespace: str, rule: str, device: str = "wan") -> Iterator[None]:
    """Packets that fit are lost on their way into that machine, and nobody says so."""
    text = f'table netdev fault {{ chain c {{ type filter hook ingress device "{device}" '
    text += f"priority 0; {rule} drop; }}; }}"
    netns.nft(namespace, text)
    try:
        yield
    finally:
        run("nft", "delete", "table", "netdev", "fault", namespace=namespace)


async def test_what_is_between_the_gateways(wireguard: str, tmp_path: Path):
    async with joined(wireguard, tmp_path) as (rome, milan):
        # What is known of a network that is well.
        there = known(rome)
        assert there.path == "userspace"
        assert there.received > 0
        assert there.sent > 0
        assert there.passes == there.mtu == 1340
        assert there.pods is not None
        assert there.endpoint.startswith("198.51.100.")
        # UDP is blocked one way: who hears nothing says so, and the other that nothing comes back.
        with dropped(rome.node, "meta l4proto udp"):
            found = await says(rome, "underlay")
            assert found.underlay == ""
            await says(milan, "tunnel")
        await well(rome, milan)
        # The other way round, with what comes to one side only lost inside the tunnel.
        with dropped(milan.names.namespace, "meta protocol ip", device=milan.names.tunnel):
            await says(milan, "tunnel")
        await well(rome, milan)
        # The line is cut.
        run("ip", "-n", rome.node, "link", "set", "wan", "down")
        await says(rome, "underlay")

        # The layer fails by what came last; the error is of the next measurement.
        await eventually(lambda: known(rome).underlay == "Network is unreachable", seconds=15)
        await says(milan, "underlay")
        run("ip", "-n", rome.node, "link", "set", "wan", "up")
        way = "198.51.100.2" if rome.member.id.endswith("r") else "198.51.100.1"
        run("ip", "-n", rome.node, "route", "replace", "default", "via", way)
        await well(rome, milan)


def fighting(namespace: str, command: str) -> subprocess.Popen[bytes]:
    """Somebody who does that again and again, whatever comes of it."""
    script = f"while :; do {command} >/dev/null 2>&1; sleep 0.1; done"
    return subprocess.Popen(["nsenter", f"--net=/run/netns/{namespace}", "bash", "-c", script])


async def keeps_doing(site: Site, command: str, layer: str, word: str) -> None:
    """Somebody takes away what is repaired, inside or on the node: the layer names it till then."""

    def named(found: NetworkFacts) -> bool:
        return any(word in each for each in (*found.translation, *found.missing))

    inside = layer == "translation"
    fighter = fighting(site.names.namespace if inside else site.node, command)
    try:
        await says(site, layer, named)
    finally:
        fighter.kill()
        fighter.wait()


async def test_what_is_on_the_gateway(wireguard: str, tmp_path: Path):
    program = tmp_path / "wg"
    shutil.copy(wireguard, program)
    # A repair that fails, as it is undone meanwhile, is tried again with pauses.
    forgets = NetworkTimings(measured_every=1.0, measured_again=0.2, fought_within=10.0)
    async with joined(str(program), tmp_path, forgets) as (rome, milan):
        # What is taken away once is put back, and said.
        table = f"nft delete table {INSIDE_TABLE}"
        run("nft", "delete", "table", *INSIDE_TABLE.split(), namespace=rome.names.namespace)

        async def put_back() -> bool:
            mended = known(rome).translated
            return any(each.endswith(f"table {INSIDE_TABLE} written") for each in mended)

        await eventually(put_back)
        assert first_failing(ladder(known(rome))) == ""
        assert await rome.reaches(6) == 3
        # By one who does not stop it is, too, and named.
        await keeps_doing(rome, table, "translation", "times in a minute")
        await well(rome, milan)
        rule = f"ip rule delete priority {ALIASES_PRIORITY}"
        await keeps_doing(rome, rule, "routes", f"rule {ALIASES_PRIORITY} ")
        await well(rome, milan)
        route = f"ip route flush table {ALIASES_TABLE}"
        await keeps_doing(rome, route, "routes", "route ")
        await well(rome, milan)
        # The tunnel's process dies: another is begun, and where there is none to begin it is said.
        os.kill(process_of(rome), signal.SIGKILL)
        await trio.sleep(0.5)
        await well(rome, milan)
        program.unlink()
        os.kill(process_of(rome), signal.SIGKILL)
        await says(rome, "tunnel", lambda found: str(program) in found.device)
        shutil.copy(wireguard, program)
        await well(rome, milan)


def process_of(site: Site) -> int:
    """The process that makes a site's tunnel."""
    (found,) = run("pgrep", "-f", f" -f {site.names.tunnel}$").split()
    return int(found)


async def test_what_the_way_carries(wireguard: str, tmp_path: Path):
    async with joined(wireguard, tmp_path) as (rome, milan):
        alias = await rome.alias(6)
        # 80 bytes are the tunnel's own: packets of 1300 pass, and no larger ones.
        with dropped(milan.node, "ip length > 1380"), dropped(rome.node, "ip length > 1380"):
            found = await says(rome, "mtu")
            assert found.passes is not None
            assert 1280 <= found.passes <= 1320
            # Routes and segments follow, so that nobody has to know: who sends more is told.
            told = ""
            for _ in range(50):
                told = await trio.to_thread.run_sync(
                    partial(ping, rome.pod.namespace, alias, size=1312)
                )
                if told.startswith("3/4"):
                    break
            assert told.endswith(f"mtu {found.passes}"), told
            verdicts = ladder(found)
            assert {verdicts[each] for each in LAYERS if each != "mtu"} == {"ok"}
            assert await rome.reaches(6) == 3
        # Less than IPv6 needs is never made: routes stay, and it is said.
        monkey = "ip length > 1200"
        with dropped(milan.node, monkey), dropped(rome.node, monkey):

            async def too_little() -> bool:
                passes, table = known(rome).passes, str(ALIASES_TABLE)
                routes = run("ip", "-n", rome.node, "route", "show", "table", table)
                return passes is not None and passes < 1280 and "mtu 1280" in routes

            await eventually(too_little)
            assert first_failing(ladder(known(rome))) == "mtu"


async def test_what_is_at_the_other_side(wireguard: str, tmp_path: Path):
    async with joined(wireguard, tmp_path) as (rome, milan):
        # Something at milan filters what comes to its pods; the tunnel is none the worse.
        text = "table inet fault { chain c { type filter hook input priority -10; "
        text += "meta l4proto icmp drop; }; chain f { type filter hook forward priority -10; "
        text += "meta l4proto icmp drop; }; }"
        netns.nft(milan.node, text)
        found = await says(rome, "pods")
        assert found.rtt is not None
        place = ids.tenant_namespace(milan.member.id)

        async def said(value: str) -> bool:
            get = rome.member.admin.get
            got = await get(CONNECTIONS, ids.gateway_resource(milan.member.id), place)
            pods = str(got["metadata"]["annotations"].get("liqod.io/pods", ""))
            return pods.startswith(value) and got["status"]["value"] == "Connected"

        await eventually(partial(said, "failed: nothing came back"))
        run("nft", "delete", "table", "inet", "fault", namespace=milan.node)
        await well(rome, milan)
        await eventually(partial(said, "reached"))
        # Milan is given a wrong key for rome: what arrives is nobody's that is known.
        where = (PUBLIC_KEYS, {"spec": {"publicKey": b64encode(os.urandom(32)).decode()}})
        at = ids.tenant_namespace(rome.member.id)
        (key,) = await milan.member.admin.list(PUBLIC_KEYS, Selection(at), decode=Partial)
        before = await milan.member.admin.get(PUBLIC_KEYS, key.metadata.name, at)
        await milan.member.admin.patch(where[0], key.metadata.name, where[1], at)
        await eventually(lambda: known(rome).arrived is not None)
        await says(rome, "tunnel")
        await milan.member.admin.patch(PUBLIC_KEYS, key.metadata.name, {"spec": before["spec"]}, at)
        await well(rome, milan)


def docker(namespace: str, program: str) -> Callable[[str], None]:
    """A machine whose rules for what passes through drop what none lets pass, as Docker's do.

    Returns:
        Puts a rule before all others.
    """
    if program != "nft":
        run(program, "-P", "FORWARD", "DROP", namespace=namespace)

        def insert(rule: str) -> None:
            run(program, "-I", "FORWARD", *rule.split(), namespace=namespace)

        return insert
    hook = "type filter hook forward priority 0; policy drop;"
    netns.nft(namespace, f"table inet filter {{ chain forward {{ {hook} }}; }}")

    def insert_first(rule: str) -> None:
        way, name = rule.split()[:2]
        said = f"{'iifname' if way == '-i' else 'oifname'} {name.replace('+', '*')} accept"
        run(
            "nft", "insert", "rule", "inet", "filter", "forward", *said.split(), namespace=namespace
        )

    return insert_first


@pytest.mark.parametrize(
    ("program", "chain"),
    [("nft", "inet filter forward"), ("iptables-legacy", "iptables-legacy filter FORWARD")],
)
async def test_a_machine_that_forwards_nothing_is_named_and_the_manuals_rules_are_enough(
    wireguard: str, tmp_path: Path, program: str, chain: str
):
    if shutil.which(program) is None:
        give_up(Unavailable(f"needs {program}"))
    async with two(wireguard, tmp_path, timings=QUICK) as (rome, milan):
        insert = docker(rome.node, program)
        # The gateways' own packets do not go by that chain, so that the networks are joined.
        assert (await join(rome.member, milan.member)).without == ""
        await well(rome, milan)
        assert known(rome).guards == (chain,)
        assert known(milan).guards == ()
        facts = PeerFacts(now=0.0, peer="", cluster=ClusterFacts(now=0.0), network=known(rome))
        found = next(each for each in liqod_checks() if each.name == "pods").look(facts)
        assert found is not None
        assert f"{chain} drops pods' packets" in found.evidence
        assert await rome.reaches(6, times=1) == 0
        assert await milan.reaches(5, times=1) == 0
        for rule in ("-i lqv+ -j ACCEPT", "-o lqv+ -j ACCEPT"):
            insert(rule)
        assert await rome.reaches(6) == 3
        assert await milan.reaches(5) == 3
