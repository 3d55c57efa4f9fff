"""Parts of the installation that somebody takes away under daemons at work.

A definition deleted under load and installed again, a webhook that hangs or that the API server
cannot reach: `status` names it and the remedy, nothing of others is touched, and all is as before
once it is repaired.
"""

import socket
from pathlib import Path

import pytest
import trio

from liqod import install
from liqod.apimachinery.kinds import CONFIG_MAPS, CUSTOM_RESOURCES, NAMESPACES, NODES, PODS, Kind
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.kube.definitions import name_of
from liqod.kube.http.httpserver import HttpRequest, HttpResponse
from liqod.resources import NAMESPACE_MAPS, SHADOW_PODS, VIRTUAL_NODES
from simulator.storage.storage import Change
from tests.simulated.borrower import Json, eventually
from tests.simulated.meeting import run
from tests.simulated.members import Member
from tests.simulated.prepared import quiet
from tests.simulated.shops import (
    CONTAINER,
    PATIENCE,
    SETTINGS,
    SHOP,
    THERE,
    admit,
    admitted,
    is_ready,
    offload_shop,
    open_shop,
    pod,
    pods_of,
    ready_pods,
    served,
    shops,
    uids,
)

pytestmark = pytest.mark.long

WEBHOOK_DEADLINE = 2.0
"""Seconds that the API server waits for the webhook."""
KEPT = 5
"""Pods of a churn that are there at once."""


class Churn:
    """Pods that come and go all the time.

    Attributes:
        made: how many have come.
    """

    def __init__(self, rome: Member) -> None:
        self._rome = rome
        self.made = 0

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            await self._rome.admin.create(PODS, pod(f"churn-{self.made}"), SHOP)
            self.made += 1
            if self.made > KEPT:
                await self._rome.admin.delete(PODS, f"churn-{self.made - KEPT - 1}", SHOP)
            await trio.sleep(0.1)

    def last(self) -> set[str]:
        """The names of those that are to be there."""
        return {f"churn-{number}" for number in range(max(self.made - KEPT, 0), self.made)}


def witnessed(member: Member, namespace: str) -> dict[str, set[str]]:
    """The UIDs of all pods of each name that ever were in a namespace, from now on."""
    found: dict[str, set[str]] = {}

    def see(change: Change) -> None:
        if change.last.namespace == namespace:
            found.setdefault(change.last.name, set()).add(change.last.uid)

    pods = member.cluster.registry.storage.of("pods")
    for item in pods.items(namespace):
        found.setdefault(item.name, set()).add(item.uid)
    pods.listeners.append(see)
    return found


def replaced(seen: dict[str, set[str]]) -> set[str]:
    """The names that more than one pod has had."""
    return {name for name, those in seen.items() if len(those) > 1}


@pytest.mark.parametrize(
    ("where", "kinds", "pods_stay"),
    [
        ("rome", (NAMESPACE_MAPS, VIRTUAL_NODES), True),
        # Kubernetes itself collects the pods, which the ShadowPods own.
        ("milan", (SHADOW_PODS,), False),
    ],
    ids=["what the consumer asks", "shadow pods"],
)
async def test_definitions_deleted_under_load(
    where: str, kinds: tuple[Kind, ...], *, pods_stay: bool, tmp_path: Path
) -> None:
    async with open_shop("milan", replicas=3) as [rome, milan]:
        there = rome if where == "rome" else milan
        await milan.admin.create(CONFIG_MAPS, {"metadata": {"name": "theirs"}}, THERE)

        async def lasting() -> list[str]:
            """The UIDs of what nobody may touch."""
            found = [
                await milan.admin.get(NAMESPACES, THERE),
                await milan.admin.get(CONFIG_MAPS, "theirs", THERE),
                await rome.admin.get(NODES, "milan"),
            ]
            return [each["metadata"]["uid"] for each in found]

        before = await lasting()
        here, away = witnessed(rome, SHOP), witnessed(milan, THERE)
        churn = Churn(rome)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(churn.run)
            await eventually(lambda: churn.made > KEPT)
            for kind in kinds:
                await there.admin.delete(CUSTOM_RESOURCES, name_of(kind))
            for kind in kinds:
                await there.gone(CUSTOM_RESOURCES, name_of(kind))
            shown = " ".join((await run(there, tmp_path, "status")).out.split())
            for kind in kinds:
                assert f"the custom resource {name_of(kind)} is missing" in shown
            await install.install(there.admin, install.Options(cluster_id=where), quiet)
            nursery.cancel_scope.cancel()

        async def settled() -> bool:
            ready = await ready_pods(rome, SHOP)
            web = {name for name in ready if name.startswith("web-")}
            there_now = set(await pods_of(milan, THERE))
            return len(web) == 3 and ready - web == churn.last() and there_now == ready

        await eventually(settled, seconds=PATIENCE)
        assert await lasting() == before
        assert is_ready(await rome.admin.get(NODES, "milan"))
        assert not replaced(here)
        assert not pods_stay or not replaced(away)
        assert "is missing" not in (await run(there, tmp_path, "status")).out


def plain(name: str) -> Json:
    """A pod that says nothing of where it is to run."""
    return {"metadata": {"name": name}, "spec": {"containers": [CONTAINER]}}


async def home_of(rome: Member, name: str, namespace: str = SHOP) -> str:
    """The node of a pod, once it is Ready."""
    found = await rome.until(PODS, name, namespace, is_ready)
    return str(found["spec"]["nodeName"])


async def test_a_webhook_that_answers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods of other namespaces never know, those of offloaded ones stay at home."""
    hangs, ordinary = False, PodWebhook.answer

    async def answer(hook: PodWebhook, request: HttpRequest) -> HttpResponse:
        if hangs:
            await trio.sleep_forever()
        return await ordinary(hook, request)

    monkeypatch.setattr(PodWebhook, "answer", answer)
    async with shops("milan") as [rome, _]:
        await rome.admin.create(PODS, plain("before"), SHOP)
        assert await home_of(rome, "before") == "milan"
        hangs = True
        began = trio.current_time()
        await rome.admin.create(PODS, plain("plain"), "default")
        assert trio.current_time() - began < WEBHOOK_DEADLINE
        began = trio.current_time()
        await rome.admin.create(PODS, plain("missed"), SHOP)
        assert WEBHOOK_DEADLINE - 0.1 < trio.current_time() - began < 5 * WEBHOOK_DEADLINE
        assert await home_of(rome, "plain", "default") == "rome-node-1"
        assert await home_of(rome, "missed") == "rome-node-1"
        hangs = False
        await rome.admin.create(PODS, plain("later"), SHOP)
        assert await home_of(rome, "later") == "milan"


async def test_a_webhook_that_cannot_be_reached(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    settings = f'{SETTINGS}advertise = "127.0.0.1:{port}"\n'
    async with served("milan", settings=settings, leads=True) as [rome, _]:
        async with trio.open_nursery() as nursery:
            await admit(rome, nursery)
            await offload_shop(rome, podOffloadingStrategy="Remote")
            said = (
                "the API server cannot reach the webhook: nothing answers it at "
                f"https://127.0.0.1:{port}"
            )

            async def status() -> str:
                return " ".join((await run(rome, tmp_path, "status")).out.split())

            await eventually(status, lambda shown: said in shown)
            await rome.admin.create(NAMESPACES, {"metadata": {"name": "both"}})
            told = await run(rome, tmp_path, "offload", "namespace", "both")
            assert str(port) in told.out + told.err
            await rome.admin.create(PODS, plain("plain"), "default")
            await rome.admin.create(PODS, plain("missed"), SHOP)
            # Without its toleration this one finds no node; it is given one.
            stray = plain("stray")
            stray["spec"]["nodeSelector"] = {"liqo.io/type": "virtual-node"}
            await rome.admin.create(PODS, stray, "both")
            assert await home_of(rome, "stray", "both") == "milan"
            assert await home_of(rome, "plain", "default") == "rome-node-1"
            assert await home_of(rome, "missed") == "rome-node-1"
            assert "1 pod of shop" in await status()
            nursery.cancel_scope.cancel()
        await rome.stop()
        rome.settings = SETTINGS
        await rome.start()
        async with trio.open_nursery() as nursery:
            await admit(rome, nursery)
            await rome.admin.delete(PODS, "missed", SHOP)
            await eventually(lambda: admitted(rome))
            await eventually(status, lambda shown: "the webhook" not in shown)
            await rome.admin.create(PODS, plain("later"), SHOP)
            assert await home_of(rome, "later") == "milan"
            assert set(await uids(rome, SHOP)) == {"later"}
            nursery.cancel_scope.cancel()
