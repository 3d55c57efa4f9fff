"""What `liqod explain` says of a pod before it is there, and that it then comes to just that."""

import json
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import DEPLOYMENTS, MUTATING_WEBHOOKS, PODS, REPLICA_SETS
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
SETTINGS = '[webhook]\nport = 0\nhost = "127.0.0.1"\n'
MIRROR = {
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

        text = await run(rome, tmp_path, "explain", "deployment", "web", "-n", "shop")
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
            (("service", "web"), "'service' has no pods that are explained"),
            (("pod",), "say KIND and NAME"),
            (("node", "none"), f"there is no virtual node none; these are: {virtual}"),
        ):
            failed = await run(rome, tmp_path, "explain", *words)
            assert failed.status in (1, 2)
            assert said in failed.err
