"""Looking into real daemon processes beside embedded clusters, over the socket."""

import json
import subprocess
import tarfile
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from liqod import __version__
from liqod.apimachinery.kinds import (
    NAMESPACES,
    PODS,
    SECRETS,
)
from liqod.apimachinery.meta import ObjectMeta
from liqod.cli import inspectorclient
from liqod.cli.inspectorclient import InspectorClient
from liqod.errors import ConfigError
from liqod.inspect import protocol
from liqod.inspect.metrics import FAMILIES
from liqod.inspect.protocol import (
    Act,
    ActionPlan,
    Examine,
    Findings,
    GetLogs,
    GetObject,
    Preview,
    RequestDone,
    Text,
    Update,
)
from liqod.kube.recorder import record
from liqod.model.view.headline import condition, first_failing, worst
from liqod.model.view.roomrows import RoomSums
from liqod.model.view.state import LiveState, apply
from liqod.resources import CRD_REVISION, NAMESPACE_OFFLOADINGS, TENANTS, VIRTUAL_NODES
from tests.simulated.borrower import eventually
from tests.simulated.processes import Site, command, sites
from tests.testbed.processes import free_ports

PLANTED = "s3cr3t-that-must-not-leave"


class Follower:
    """A viewer that keeps up; the state is always the newest."""

    def __init__(self, looker: InspectorClient) -> None:
        self.state = LiveState()
        self.at = 0.0
        self.topics: list[str] = []
        self._looker = looker
        self._changed = trio.Event()

    async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        first, self.state = await self._looker.snapshot(events=1000)
        self.at, sequence = first.at, first.sequence
        self.topics += [event.topic for event in first.events]
        task_status.started()
        while True:
            message = await self._looker.receive()
            if isinstance(message, Update):
                assert message.sequence == sequence + 1
                sequence, self.at = message.sequence, message.at
                self.state = apply(self.state, message.delta)
                self.topics += [event.topic for event in message.delta.events]
                self._changed.set()
                self._changed = trio.Event()

    async def until(self, holds: Callable[[LiveState], bool], seconds: float = 20.0) -> float:
        """Wait until something is seen; the seconds that took."""
        began = trio.current_time()
        with trio.fail_after(seconds):
            while not holds(self.state):
                await self._changed.wait()
        return trio.current_time() - began


@asynccontextmanager
async def peered(folder: Path):
    """rome borrows from milan, with a namespace offloaded and a pod there."""
    ports = dict(zip(("rome", "milan"), free_ports(2), strict=True))
    async with sites(folder, "rome", "milan", settings=None) as (rome, milan):
        for site in (rome, milan):
            site.daemon.settings["health"] = {"port": ports[site.name]}
            site.daemon.settings["handshake"] = {"proxy": f"http://me:{PLANTED}@127.0.0.1:1"}
            await site.start()
        user = await milan.user_for("rome")
        await rome.liqod("peer", "--remote-kubeconfig", str(user), "--cpu", "2", "--pods", "9")
        await rome.admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await rome.liqod("offload", "namespace", "shop", "--pod-offloading-strategy", "Remote")
        yield rome, milan, ports["rome"]


async def run_pod(site: Site, name: str) -> None:
    container = {"name": "web", "image": "web", "env": [{"name": "PASSWORD", "value": PLANTED}]}
    manifest = {"metadata": {"name": name}, "spec": {"containers": [container]}}
    await site.admin.create(PODS, manifest, "shop")


def well(state: LiveState) -> bool:
    return bool(state.peers) and all(not peer.layer for peer in state.peers.values())


async def get(port: int, path: str, accept: str = "") -> str:
    """A bare GET of the health server."""
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        head = f"GET {path} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
        await stream.send_all(head.encode())
        return b"".join([data async for data in stream]).decode()


@pytest.mark.long
async def test_a_viewer_sees_a_peer_come_and_fail_and_recover(tmp_path: Path):
    async with (
        peered(tmp_path) as (rome, milan, _),
        inspectorclient.connect(rome.daemon.inspector) as looker,
        trio.open_nursery() as nursery,
    ):
        seen = Follower(looker)
        await nursery.start(seen.run)
        await seen.until(lambda state: "milan" in state.peers and well(state))
        await run_pod(rome, "web")
        await seen.until(lambda state: "shop/web" in state.pods and state.pods["shop/web"].ready)
        assert seen.state.pods["shop/web"].peer == "milan"
        system = await rome.admin.get(NAMESPACES, "kube-system")
        async with inspectorclient.connect(rome.daemon.inspector) as later:
            assert later.hello.cluster_uid == system["metadata"]["uid"]
        await seen.until(lambda now: now.peers["milan"].pods_out == 1)
        await seen.until(lambda state: state.pulses["milan"].rtt is not None)
        await seen.until(
            lambda now: condition(now.peers["milan"], now.pulses["milan"], seen.at) == "up"
        )
        await seen.until(lambda now: now.rooms["milan"].allocatable.get("cpu") == "2")
        assert seen.state.rooms["milan"].peer == "milan"
        assert not seen.state.rooms["milan"].told  # milan does not show what is free
        assert seen.state.room == RoomSums(nodes=1)
        assert seen.state.daemon.state == "leading"
        assert seen.state.peers["milan"].version == seen.state.daemon.kubernetes
        assert seen.state.slices["liqo-tenant-milan/milan"].direction == "borrowed"
        assert "reflector/pods" in seen.state.plugins

        await milan.cluster.stop()
        # A server that is gone is to be named within 5 s; a factor of two for a busy machine.
        took = await seen.until(lambda state: worst(state, seen.at).peer == "milan", 60.0)
        assert took < 2 * 5
        await seen.until(lambda state: state.peers["milan"].layer == "api")
        await seen.until(lambda state: first_failing(state.ladders.get("milan")) is not None)
        await milan.cluster.start()
        await seen.until(lambda state: state.peers["milan"].link == "up", 60.0)
        await seen.until(well, 60.0)
        assert "peer.link" in seen.topics
        assert "doctor" in seen.topics
        nursery.cancel_scope.cancel()


@pytest.mark.long
async def test_every_command_looks_inside(tmp_path: Path):
    async with peered(tmp_path) as (rome, milan, port):
        await run_pod(rome, "web")
        secret = {"metadata": {"name": "key"}, "stringData": {"password": PLANTED}}
        await rome.admin.create(SECRETS, secret, "shop")
        socket = ("--socket", str(rome.daemon.inspector))

        async def ready() -> bool:
            found = await rome.admin.find(PODS, "web", "shop")
            return found is not None and found["status"].get("phase") == "Running"

        await eventually(ready)
        await check_status(rome, socket)
        await check_looks(rome, socket)
        await check_metrics(port)
        await check_objects(rome)
        await check_bundle(rome, socket, tmp_path / "report.tar.gz")
        await check_actions(rome, milan)


async def call(*words: str) -> str:
    ended = await command(*words)
    assert ended.status == 0, ended.err
    return ended.out


async def check_status(rome: Site, socket: tuple[str, ...]) -> None:
    async def measured() -> bool:
        text = (await rome.liqod("status", *socket)).out
        assert "RTT" in text
        whole = json.loads((await rome.liqod("status", "-o", "json", *socket)).out)
        return " ms" in text and bool(whole["live"]["peers"]["milan"]["condition"] == "up")

    await eventually(measured)
    assert (await rome.liqod("status", "--get", "peers.0.id", *socket)).out == "milan\n"
    async with inspectorclient.connect(rome.daemon.inspector) as looker:
        _, first = await looker.snapshot()
        assert (first.peers["milan"].pods_out, list(first.pods)) == (1, ["shop/web"])
    gone = await rome.liqod("status", "--get", "peers.7.id", *socket, check=False)
    assert gone.status == 1
    assert "it has 1 entries" in gone.err
    assert "live" in json.loads((await rome.liqod("status", "-o", "json")).out)


async def check_looks(rome: Site, socket: tuple[str, ...]) -> None:
    events = (await call("events", *socket, "-o", "json")).splitlines()
    topics = [json.loads(line)["topic"] for line in events]
    assert "peer.running" in topics
    assert "KeyedQueue._next" in await call("tasks", *socket)
    tree = json.loads(await call("tasks", "-o", "json", *socket))
    assert {queue["name"] for queue in tree["queues"]} >= {"pods", "replication", "offloading"}
    assert {watch["kind"] for watch in tree["watches"]} >= {"pods", "nodes", "foreignclusters"}
    assert "rtt" in await call("history", *socket)
    await trio.sleep(1.1)
    assert "MB, most" in await call("history", "rss", *socket)
    series = json.loads(await call("history", "rtt", "--peer", "milan", "-o", "json", *socket))
    assert series["step"] == 1.0
    assert series["values"][-1] > 0
    doctor = await call("doctor", *socket)
    assert "milan: every layer works" in doctor or "milan: no layer fails" in doctor
    found = json.loads(await call("doctor", "milan", "--probe", "-o", "json", *socket))
    checks = {each["layer"]: each for each in found["ladders"][1]["checks"]}
    assert "a write takes" in checks["replication"]["evidence"]
    follow = rome.program("events", "--follow", *socket)[:-2]
    process = await trio.lowlevel.open_process(follow, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with trio.fail_after(20):
        assert b"webhook" in await process.stdout.receive_some(65536)
    process.terminate()
    await process.wait()
    await process.stdout.aclose()


async def check_metrics(port: int) -> None:
    # Nothing fails, no channel is needed, and no cluster is seen (test_meeting_metrics.py).
    rare = {"liqo_virtual_kubelet_reflection_error_counter", "liqod_sightings"}
    rare |= {"liqod_channels", "liqod_channel_streams"}
    # Nobody is refused (tests/unit/inspect/test_metrics.py).
    rare |= {"liqod_places_refused_total"}
    # No network is joined here (tests/unit/inspect/test_networkmetrics.py).
    joined = {family.sample for family in FAMILIES if family.name.startswith("liqod_network_")}
    expected = {family.sample for family in FAMILIES} - rare - joined
    text = ""

    async def shown() -> bool:
        """True once the peer's Lease, which is read now and then, has been read."""
        nonlocal text
        text = await get(port, "/metrics")
        return 'liqod_peer_daemon_up{peer="milan"} 1.0' in text

    await eventually(shown)
    lines = (line.split("{")[0].split()[0] for line in text.splitlines() if line[:1].isalpha())
    names = {name.removesuffix("_count") for name in lines}
    assert expected <= names, expected - names
    assert 'liqod_peer_up{peer="milan"} 1.0' in text
    assert 'liqod_peer_pods{direction="out",peer="milan"} 1.0' in text
    assert 'liqo_peer_is_connected{cluster_id="milan",driver="api"} 1.0' in text
    opened = await get(port, "/metrics", "application/openmetrics-text; version=1.0.0")
    assert opened.rstrip().endswith("# EOF")
    assert (await get(port, "/readyz")).startswith("HTTP/1.1 200")


async def check_objects(rome: Site) -> None:
    async with inspectorclient.connect(rome.daemon.inspector) as looker:
        ask = GetObject(id=1, kind="Pod", namespace="shop", name="web")
        here = await looker.request(ask, Text)
        assert "kind: Pod" in here.text
        assert PLANTED not in here.text
        ask = GetObject(id=2, kind="Pod", namespace="shop", name="web", peer="milan")
        there = await looker.request(ask, Text)
        assert "nodeName: milan" in there.text
        logs = await looker.request(GetLogs(id=3, namespace="shop", pod="web", tail=5), Text)
        assert logs.text
        found = await looker.request(Examine(id=4), Findings)
        assert [ladder.peer for ladder in found.ladders] == ["", "milan"]


async def plant(rome: Site) -> None:
    """Put secrets where a bundle looks beside Liqo's objects: Events and pods of liqod's own."""
    meta = ObjectMeta(name="liqod", namespace="liqo", uid="u")
    await record(rome.admin, PODS, meta, "Planted", f"began with --password {PLANTED}")
    container = {
        "name": "c",
        "image": f"https://me:{PLANTED}@registry.example/liqod",
        "env": [{"name": "EXAMPLE", "value": PLANTED}],
        "args": ["run", "--token", PLANTED],
    }
    pod = {"metadata": {"name": "liqod"}, "spec": {"containers": [container]}}
    await rome.admin.create(PODS, pod, "liqo")


async def check_bundle(rome: Site, socket: tuple[str, ...], path: Path) -> None:
    await plant(rome)
    await rome.liqod("doctor", "--bundle", str(path), *socket)
    with tarfile.open(path) as archive:
        texts = {
            each.name.removeprefix("liqod/"): archive.extractfile(each).read().decode()  # type: ignore[union-attr]
            for each in archive.getmembers()
        }
    assert {"state.json", "events.json", "log.json"} <= texts.keys()
    assert "objects/foreignclusters.json" in texts
    about = json.loads(texts["about.json"])
    daemon = json.loads(texts["daemon.json"])
    for program in (about["command"], daemon["program"]):
        assert program["version"] == __version__
        assert program["python"].startswith("CPython 3.")
        assert program["kernel"].startswith("Linux ")
        assert program["dependencies"]["trio"]
        assert program["origin"] == "checkout"
    assert daemon["settings"]["handshake"]["proxy"].endswith("@127.0.0.1:1")
    assert json.loads(texts["kubernetes.json"])["gitVersion"].startswith("v1.")
    assert json.loads(texts["definitions.json"])["quotas.offloading.liqo.io"] == str(CRD_REVISION)
    assert "Planted" in texts["events-of-objects.json"]
    assert '"liqo-controller-manager"' in texts["installation/deployments.json"]
    assert '"liqod"' in texts["installation/pods.json"]
    (foreign,) = json.loads(texts["objects/foreignclusters.json"])
    assert foreign["status"]["conditions"], "what a maintainer asks for first"
    assert '"web"' in "".join(texts.values())
    for text in texts.values():
        assert PLANTED not in text
        assert "PRIVATE KEY" not in text
        assert "LS0tLS1CRUdJTi" not in text


async def check_actions(rome: Site, milan: Site) -> None:
    """Each says what it will do, and does what the command line does."""
    async with inspectorclient.connect(milan.daemon.inspector) as looker:
        assert "cordon" in looker.hello.verbs
        plan = await looker.request(Preview(id=1, verb="drain", subject="rome"), ActionPlan)
        assert plan.destructive
        assert plan.command == "liqod drain tenant rome --yes"
        assert "deletes the slice milan" in plan.changes
        await looker.request(Act(id=2, verb="cordon", subject="rome"), RequestDone)
        (tenant,) = await milan.admin.list(TENANTS)
        assert tenant["spec"]["tenantCondition"] == "Cordoned"
        await looker.request(Act(id=3, verb="uncordon", subject="rome"), RequestDone)
        assert (await looker.snapshot())[1].pulses["rome"].backlog == 0
        with pytest.raises(ConfigError, match="no tenant oslo"):
            await looker.request(Preview(id=4, verb="cordon", subject="oslo"), ActionPlan)
    async with inspectorclient.connect(rome.daemon.inspector) as looker:
        plan = await looker.request(Preview(id=1, verb="unoffload", subject="shop"), ActionPlan)
        assert plan.changes == ("deletes shop-rome on milan, with every pod and object in it",)
        await rome.admin.create(NAMESPACES, {"metadata": {"name": "yard"}})
        options = {"selector": "liqo.io/type in (virtual-node)"}
        await looker.request(
            Act(id=2, verb="offload", subject="yard", options=options), RequestDone
        )
        await eventually(lambda: offloaded(rome, "yard"))
        plan = await looker.request(Preview(id=3, verb="unpeer", subject="milan"), ActionPlan)
        assert "deletes VirtualNode milan" in plan.changes
        done = await looker.request(Act(id=4, verb="unpeer", subject="milan"), RequestDone)
        assert "unpeered from milan" in done.text
        assert await rome.admin.list(VIRTUAL_NODES) == []


async def offloaded(site: Site, namespace: str) -> bool:
    found = await site.admin.find(NAMESPACE_OFFLOADINGS, "offloading", namespace)
    return found is not None and found.get("status", {}).get("offloadingPhase") == "Ready"


@pytest.mark.long
async def test_two_daemons_and_a_restart(tmp_path: Path):
    async with sites(tmp_path, "rome") as (rome,):
        await rome.start()
        async with inspectorclient.connect(rome.daemon.inspector) as looker:
            before = looker.hello.started
            await rome.stop()
        assert not rome.daemon.inspector.exists()
        await rome.start()
        async with inspectorclient.connect(rome.daemon.inspector) as looker:
            assert looker.hello.started > before
        rome.daemon.kill()
        assert rome.daemon.inspector.exists()
        # It stands by until the Lease of the one that was killed has run out.
        rome.daemon.launch()
        await eventually(lambda: trio.to_thread.run_sync(rome.daemon.has_said, "STATUS=standing"))
        async with inspectorclient.connect(rome.daemon.inspector) as looker:
            assert looker.hello.protocol == protocol.VERSION
