"""What `liqod explain` says of a pod before it is there, and that it then comes to just that."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CLAIMS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    PODS,
    REPLICA_SETS,
    STORAGE_CLASSES,
)
from liqod.consumer.webhook.podwebhook import PodWebhook
from liqod.kube import times
from liqod.kube.selection import Selection
from liqod.model.objects import returnmarks, webhook
from liqod.model.objects.returnmarks import ReturnMark
from liqod.resources import NAMESPACE_OFFLOADINGS, OVERRIDE_POLICIES
from liqod.runtime.account import Account
from tests.simulated.borrower import eventually, offload
from tests.simulated.meeting import lead, run
from tests.simulated.members import Member, members

Json = dict[str, Any]
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "explain.md"
SETTINGS = '[webhook]\nport = 0\nhost = "127.0.0.1"\n'
MIRROR: Json = {
    "metadata": {"name": "mirror"},
    "spec": {"objects": [{"kind": "Pod"}], "image": {"registry": "mirror.milan.example"}},
}


def web(**requests: str) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {
                    "containers": [
                        {"name": "c", "image": "web:1", "resources": {"requests": requests}}
                    ]
                },
            },
        },
    }


async def explained(
    member: Member, folder: Path, *bodies: Json, of: tuple[str, ...] = ()
) -> tuple[int | None, dict[str, Json]]:
    """The exit status, and the answers of the nodes of the last object, by node."""
    words = of
    if bodies:
        file = folder / "web.yaml"
        file.write_text(yaml.safe_dump_all(bodies))
        words = ("-f", str(file))
    ended = await run(member, folder, "explain", *words, "-n", "shop", "-o", "json")
    assert ended.out, ended.err
    return ended.status, {each["node"]: each for each in json.loads(ended.out)[-1]["nodes"]}


def why(answer: Json) -> list[str]:
    return [each["reason"] for each in answer["refusals"]]


@pytest.mark.long
async def test_a_pod_goes_where_it_was_explained_to_go(tmp_path: Path, nursery: trio.Nursery):
    async with members("rome", "milan", nodes=1, settings=SETTINGS) as [rome, milan]:
        await nursery.start(lead, rome)
        await rome.peer(milan)

        async def node_is_there() -> bool:
            _, answers = await explained(rome, tmp_path, web(cpu="100m"))
            return any(each["peer"] == "milan" for each in answers.values())

        await eventually(node_is_there)
        status, before = await explained(rome, tmp_path, web(cpu="100m"))
        virtual = next(name for name, each in before.items() if each["peer"] == "milan")
        home = next(name for name, each in before.items() if not each["peer"])
        assert status == 0
        assert before[home]["goes"]
        assert why(before[virtual]) == ["NotOffloaded"]

        hook = PodWebhook(rome.context, Account())
        await nursery.start(hook.run)
        await nursery.start(hook.run_as_leader)
        await offload(rome.admin, "shop", podOffloadingStrategy="Remote")
        await rome.admin.create(OVERRIDE_POLICIES, MIRROR, "shop")

        async def goes() -> dict[str, Json] | None:
            _, answers = await explained(rome, tmp_path, web(cpu="100m"))
            return answers if answers[virtual]["goes"] else None

        after = await eventually(goes)
        assert why(after[home]) == ["StrategyRemote"]
        assert after[virtual]["namespace"] == "shop-rome"
        assert after[virtual]["policies"] == ["shop/mirror"]
        [changed] = after[virtual]["differences"]
        assert changed["there"][0]["image"] == "mirror.milan.example/web:1"

        status, large = await explained(rome, tmp_path, web(cpu="4000"))
        assert status == 3
        assert "NotLent" in why(large[virtual])
        assert "no machine has cpu 4k" in large[virtual]["refusals"][0]["message"]

        async def is_called() -> bool:
            found = await rome.admin.find(MUTATING_WEBHOOKS, webhook.NAME)
            notes: Json = ((found or {}).get("metadata") or {}).get("annotations") or {}
            return bool(notes.get(labels.WEBHOOK_REACHABLE) == "true")

        await eventually(is_called)
        pod = {"metadata": {"name": "web-0"}, "spec": web(cpu="100m")["spec"]["template"]["spec"]}
        await rome.admin.create(PODS, pod, "shop")

        async def bound() -> Any:
            return (await rome.admin.get(PODS, "web-0", "shop"))["spec"].get("nodeName")

        assert await eventually(bound) == virtual
        status, there = await explained(rome, tmp_path, of=("pod", "web-0"))
        assert (status, there[virtual]["runs"]) == (0, True)
        node = await run(rome, tmp_path, "explain", "node", virtual, "-o", "json")
        told = json.loads(node.out)
        assert told["peer"] == "milan"
        assert told["granted"]["cpu"] == told["asked"]["cpu"] == told["allocatable"]["cpu"] == "2"
        assert told["used"]["cpu"] == "100m"
        assert {each["type"]: each["status"] for each in told["said"]}["Resources"] == "Accepted"
        assert told["machines"]

        await rome.admin.create(DEPLOYMENTS, web(cpu="100m"), "shop")
        status, others = await explained(rome, tmp_path, of=("deployment", "web"))
        assert status == 0, why(others[virtual])

        async def is_there() -> Any:
            text = await run(rome, tmp_path, "explain", "deployment", "web", "-n", "shop")
            return (
                text if "  0 of 1 replica ready\n    1 at milan, not ready\n" in text.out else None
            )

        text = await eventually(is_there)
        assert f"  milan: yes, to {virtual}, as shop-rome" in text.out
        assert "    changed there by the OverridePolicies shop/mirror" in text.out
        assert "        +  image: mirror.milan.example/web:1" in text.out.replace("+- ", "+  ")
        assert "      StrategyRemote: the strategy of shop is Remote" in text.out

        [made] = await rome.admin.list(REPLICA_SETS, Selection("shop"))
        mark = ReturnMark(
            *(made["metadata"]["uid"], "ReplicaSet", "web", "milan", "Image", "no such image"),
            *(times.now(), times.of(times.seconds(times.now()) + 3600.0)),
        )
        notes = {"metadata": {"annotations": {labels.RETURNED: returnmarks.render([mark])}}}
        await rome.admin.patch(NAMESPACE_OFFLOADINGS, "offloading", notes, "shop")
        status, avoiding = await explained(rome, tmp_path, of=("deployment", "web"))
        assert (status, why(avoiding[virtual])) == (3, ["Returned"])

        for words, said in (
            (("pod", "none", "-n", "shop"), "there is no Pod none in the namespace shop"),
            (("secret", "web"), "'secret' has no pods that are explained"),
            (("pod",), "say KIND and NAME"),
            (("node", "none"), f"there is no virtual node none; these are: {virtual}"),
        ):
            failed = await run(rome, tmp_path, "explain", *words)
            assert failed.status in (1, 2)
            assert said in failed.err


@pytest.mark.long
async def test_a_workload_is_explained_with_where_its_replicas_are(tmp_path: Path):
    async with members("rome", nodes=1, settings=SETTINGS) as [rome]:
        await offload(rome.admin, "shop", podOffloadingStrategy="Local")
        body = web(cpu="3")
        body["spec"]["replicas"] = 3
        await rome.admin.create(DEPLOYMENTS, body, "shop")

        async def placed() -> str | None:
            shown = await run(rome, tmp_path, "explain", "deployment", "web", "-n", "shop")
            return shown.out if "    2 at home\n" in shown.out else None

        text = await eventually(placed)
        assert "  2 of 3 replicas ready\n" in text
        [waits] = [line for line in text.splitlines() if " without a node: " in line]
        assert waits.startswith("    1 without a node: 0/1 nodes are available: ")
        assert waits.endswith(" -n shop`")
        words = waits.partition("`liqod ")[2].rstrip("`").split()
        assert "Insufficient: cpu: 3 asked, 2 left" in (await run(rome, tmp_path, *words)).out

        shown = await run(
            rome, tmp_path, "explain", "deployment", "web", "-n", "shop", "-o", "json"
        )
        [told] = json.loads(shown.out)
        assert [each["count"] for each in told["replicas"]["groups"]] == [2, 1]
        assert told["replicas"]["unmade"] == 0


@pytest.mark.long
async def test_claims_of_one_pod_and_those_that_follow_their_pod_are_judged(tmp_path: Path):
    async with members("rome", nodes=1, settings=SETTINGS) as [rome]:
        await offload(rome.admin, "shop", podOffloadingStrategy="Local")
        late = {"metadata": {"name": "late"}, "provisioner": "x", "reclaimPolicy": "Delete"}
        await rome.admin.create(
            STORAGE_CLASSES, {**late, "volumeBindingMode": "WaitForFirstConsumer"}
        )
        spec = {"storageClassName": "late", "resources": {"requests": {"storage": "1Gi"}}}
        alone = {"accessModes": ["ReadWriteOncePod"], **spec}
        await rome.admin.create(CLAIMS, {"metadata": {"name": "data"}, "spec": alone}, "shop")
        volume: Json = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
        containers = [{"name": "c", "image": "i"}]
        user = {"nodeName": "rome-1", "containers": containers, "volumes": [volume]}
        [node] = (await explained(rome, tmp_path, web()))[1]
        await rome.admin.create(
            PODS, {"metadata": {"name": "db"}, "spec": {**user, "nodeName": node}}, "shop"
        )
        other = web()
        other["spec"]["template"]["spec"]["volumes"] = [volume]
        status, answers = await explained(rome, tmp_path, other)
        assert (status, why(answers[node])) == (3, ["VolumeInUse"])
        assert "shop/db uses it" in answers[node]["refusals"][0]["message"]

        volume = {"name": "d", "ephemeral": {"volumeClaimTemplate": {"spec": alone}}}
        other["spec"]["template"]["spec"]["volumes"] = [volume]
        assert (await explained(rome, tmp_path, other))[0] == 0
        alone["storageClassName"] = "none"
        status, answers = await explained(rome, tmp_path, other)
        assert (status, why(answers[node])) == (3, ["VolumeMissing"])


@pytest.mark.long
async def test_the_page_shows_what_is_printed(tmp_path: Path, nursery: trio.Nursery):
    async with members("rome", "milan", "turin", nodes=2, settings=SETTINGS) as [rome, *peers]:
        await nursery.start(lead, rome)
        for peer in peers:
            await rome.peer(peer, resources={"cpu": "8", "memory": "4Gi", "pods": "20"})
        await offload(rome.admin, "shop", podOffloadingStrategy="Remote")
        mirror = {**MIRROR, "spec": {**MIRROR["spec"], "peers": ["milan"]}}
        await rome.admin.create(OVERRIDE_POLICIES, mirror, "shop")
        template = web(cpu="7")["spec"]["template"]
        busy = {"metadata": {"name": "busy"}, "spec": {**template["spec"], "nodeName": "turin"}}
        await rome.admin.create(PODS, busy, "shop")
        (tmp_path / "web.yaml").write_text(yaml.safe_dump(web(cpu="4")))
        block, *_ = re.findall(r"^```text\n(.*?)^```", PAGE.read_text(), re.M | re.S)
        # A manifest has no replicas yet.
        block = re.sub(r"^ +\d.*\n", "", block, flags=re.M)

        async def is_shown() -> bool:
            words = ("explain", "-f", str(tmp_path / "web.yaml"), "-n", "shop")
            return (await run(rome, tmp_path, *words)).out == block

        await eventually(is_shown)
