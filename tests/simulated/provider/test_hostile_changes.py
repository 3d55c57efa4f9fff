"""Attacks of a consumer by changes of a ShadowPod whose pod runs, in an embedded cluster."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS
from liqod.provider.workloads import podupdates
from liqod.resources import SHADOW_PODS
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.lender import SHOP, Lender
from tests.simulated.prepared import installed
from tests.simulated.provider.shadowed import at_work, lending

Json = dict[str, Any]


@pytest.fixture
async def lender() -> AsyncIterator[Lender]:
    async with (
        EmbeddedCluster("milan", state=await installed("milan")) as embedded,
        lending(embedded) as made,
    ):
        await made.grant(cpu="4")
        async with at_work(made):
            yield made


def container(name: str, cpu: str = "", image: str = "web") -> Json:
    asked = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
    return {"name": name, "image": image, **asked}


async def change(made: Lender, **spec: Any) -> None:
    await made.admin.patch(SHADOW_PODS, "web", {"spec": {"pod": spec}}, SHOP)


async def noted(made: Lender, words: str) -> Json:
    """The pod, once it has this in its note."""
    found: Json = {}

    async def look() -> bool:
        found.update(await made.pod("web") or {})
        return words in found["metadata"].get("annotations", {}).get(labels.CHANGES, "")

    await eventually(look)
    return found


async def test_a_container_that_the_shadow_pod_leaves_out_counts_where_another_grows(
    lender: Lender,
) -> None:
    both = [container("web", "1"), container("other", "3")]
    await lender.ask_for("web", pod={"containers": both})
    before = await lender.made("web")
    await change(lender, containers=[container("web", "4")])
    pod = await noted(lender, " OverQuota: ")
    assert pod["spec"]["containers"] == before["spec"]["containers"]
    assert pod["metadata"]["uid"] == before["metadata"]["uid"]


async def test_what_is_refused_of_a_pod_is_refused_of_its_change(lender: Lender) -> None:
    await lender.ask_for("web", pod={"containers": [container("web")]})
    before = await lender.made("web")
    host = {"name": "host", "hostPath": {"path": "/"}}
    image = container("web", image="other")
    await change(lender, containers=[image], volumes=[host], nodeName="control-plane")
    pod = await noted(lender, " NotAllowed: ")
    assert pod["spec"] == before["spec"]
    await change(lender, containers=[image], volumes=None)
    await eventually(lambda: runs(lender, "other"))
    pod = await noted(lender, "")
    assert pod["spec"]["volumes"] == before["spec"]["volumes"]
    assert pod["spec"].get("nodeName") != "control-plane"


async def runs(made: Lender, image: str) -> bool:
    pod = await made.pod("web")
    assert pod is not None
    return bool(pod["spec"]["containers"][0]["image"] == image)


async def test_containers_to_debug_a_pod_have_an_end(lender: Lender) -> None:
    await lender.ask_for("web", pod={"containers": [container("web")]})
    await lender.made("web")
    most = podupdates.MOST_EPHEMERAL
    await change(lender, ephemeralContainers=[container(f"a{n}") for n in range(most)])
    await eventually(lambda: has(lender, most))
    # Those that are left out by now are there all the same.
    await change(lender, ephemeralContainers=[container("b")])
    pod = await noted(lender, " NotAllowed: ")
    assert len(pod["spec"]["ephemeralContainers"]) == most


async def has(made: Lender, count: int) -> bool:
    pod = await made.pod("web")
    assert pod is not None
    return len(pod["spec"].get("ephemeralContainers", ())) == count


async def test_a_note_of_its_own_is_none(lender: Lender) -> None:
    await lender.ask_for(
        "web",
        pod={"containers": [container("web")]},
        annotations={labels.CHANGES: "forged"},
    )
    pod = await lender.made("web")
    assert pod["metadata"]["annotations"][labels.CHANGES] != "forged"
    await change(lender, containers=[container("web", image="other")])
    await eventually(lambda: runs(lender, "other"))


async def test_nothing_is_changed_while_nothing_would_hold_the_consumer(lender: Lender) -> None:
    await lender.ask_for("web", pod={"containers": [container("web")]})
    await lender.made("web")
    lender.guest_policies.missing = ("a policy",)
    await change(lender, containers=[container("web", image="other")])
    await noted(lender, " PoliciesMissing: ")
    assert not await runs(lender, "other")


async def test_nonsense_changes_nothing_and_the_pod_stays(lender: Lender) -> None:
    await lender.ask_for("web", pod={"containers": [container("web")]})
    before = await lender.made("web")
    strange: list[Json] = [
        {"containers": "x"},
        {"containers": [1, {"name": 2}, {"name": "web", "image": ["x"], "resources": "y"}]},
        {"tolerations": {"a": "b"}, "ephemeralContainers": 7, "activeDeadlineSeconds": "soon"},
    ]
    for spec in strange:
        await change(lender, **spec)
        await lender.settled()
    pod = await lender.admin.get(PODS, "web", SHOP)
    assert pod["spec"] == before["spec"]
    assert pod["metadata"]["uid"] == before["metadata"]["uid"]
