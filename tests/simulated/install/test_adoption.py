"""A consumer that ran Liqo runs liqod: its pods at a provider run on."""

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, PODS, SECRETS
from liqod.reflection.timings import ReflectionTimings
from liqod.resources import QUOTAS, SHADOW_PODS
from tests.simulated.borrower import eventually
from tests.simulated.install.recorded import NAMES, WEB, offloaded
from tests.simulated.lendingpods import LENDER, here, lending
from tests.simulated.reflecting import SHOP, THERE, Pair

ROOT_CA = NAMES["kube-root-ca.crt.ly"]
UID = "liqod.io/local-uid"
CREATOR = "liqo.io/creator-user"
TOKENS = tuple(f"{name}-token" for name in WEB)


async def uids(both: Pair) -> dict[tuple[str, str], str]:
    """Returns the UIDs of the two pods at the provider, and of the objects that they mount."""
    found = {}
    for kind, names in (
        (SHADOW_PODS, WEB),
        (PODS, WEB),
        (SECRETS, ("cred", *TOKENS)),
        (CONFIG_MAPS, ("conf", ROOT_CA)),
    ):
        for name in names:
            live = await both.there.find(kind, name, THERE)
            found[kind.name, name] = "" if live is None else live["metadata"]["uid"]
    return found


async def running(both: Pair) -> None:
    granted = {"spec": {"resources": {"memory": "80Gi"}}}
    await both.there.patch(QUOTAS, "milan-rome", granted, LENDER)
    for name in WEB:
        await both.comes(PODS, name, lambda pod: pod["status"].get("phase") == "Running")


@pytest.mark.parametrize("creator", [True, False])
async def test_what_liqo_made_at_a_peer_is_gone_on_with(creator: bool):
    soon = ReflectionTimings(grace=0.5, serving=0.2)
    async with lending(engine={"timings": soon}) as (both, nursery):
        both.stop()
        mine = await offloaded(both, creator=creator)
        await running(both)
        before = await uids(both)
        assert all(before.values())

        await both.start(nursery, timings=soon)
        for name in WEB:
            shadow = await both.comes(
                SHADOW_PODS, name, lambda found: UID in found["metadata"].get("annotations", {})
            )
            assert shadow["metadata"]["annotations"][UID] == mine[name]["metadata"]["uid"]
            assert shadow["metadata"]["labels"].get(CREATOR) == (
                NAMES["lz-40cb4b342f45"] if creator else None
            )
            await here(both, name)
        await trio.sleep(1.0)
        assert await uids(both) == before
        whole = await both.there.get(SHADOW_PODS, WEB[0], THERE)
        assert "serviceaccount" in str(whole["spec"]["pod"]), "its content stays as it was"

        # It is an ordinary pod from here on: what it has goes with it.
        await both.here.delete(PODS, WEB[0], SHOP)
        await both.goes(PODS, WEB[0], client=both.here, namespace=SHOP)
        await both.goes(SHADOW_PODS, WEB[0])
        await both.goes(SECRETS, TOKENS[0])
        left = await uids(both)
        assert left[SHADOW_PODS.name, WEB[1]] == before[SHADOW_PODS.name, WEB[1]]
        assert left[SECRETS.name, TOKENS[1]] == before[SECRETS.name, TOKENS[1]]


@pytest.mark.long
async def test_a_new_pod_is_not_taken_for_the_one_that_liqo_knew():
    async with lending() as (both, nursery):
        both.stop()
        await offloaded(both)
        await running(both)
        name = WEB[0]
        before = await uids(both)
        await both.here.delete(PODS, name, SHOP, grace=0)
        await trio.sleep(1.1)  # creation times have seconds
        again = await both.pod(name)

        await both.start(nursery)

        async def replaced() -> bool:
            shadow = await both.there.find(SHADOW_PODS, name, THERE)
            notes = {} if shadow is None else shadow["metadata"].get("annotations", {})
            return bool(notes.get(UID) == again["metadata"]["uid"])

        await eventually(replaced)
        after = await uids(both)
        assert after[SHADOW_PODS.name, name] != before[SHADOW_PODS.name, name]
        assert after[SHADOW_PODS.name, WEB[1]] == before[SHADOW_PODS.name, WEB[1]]


async def test_an_edit_of_what_was_adopted_is_not_answered_with_another_spec():
    async with lending() as (both, nursery):
        both.stop()
        await offloaded(both)
        await running(both)
        await both.start(nursery)
        for name in WEB:
            await both.comes(
                SHADOW_PODS, name, lambda found: UID in found["metadata"].get("annotations", {})
            )
        image = [{"name": "web", "image": "nginx:1.28"}]
        await both.there.patch(SHADOW_PODS, WEB[0], {"spec": {"pod": {"containers": image}}}, THERE)
        await both.there.patch(
            SHADOW_PODS, WEB[0], {"metadata": {"labels": {"app": "edited"}}}, THERE
        )
        found = await both.comes(
            SHADOW_PODS, WEB[0], lambda found: found["metadata"]["labels"]["app"] == "web"
        )
        assert found["spec"]["pod"]["containers"] == image
