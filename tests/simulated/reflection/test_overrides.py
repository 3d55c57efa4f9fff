"""OverridePolicies between two embedded clusters: what is there, what is told, what stays here."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, EVENTS, INGRESSES, PODS, SERVICES
from liqod.plugins.reflectors.pods import CHANGED
from liqod.reflection.overridecontroller import OverrideController
from liqod.resources import OVERRIDE_POLICIES, SHADOW_PODS, VIRTUAL_NODES
from tests.simulated.borrower import eventually
from tests.simulated.lendingpods import here as running
from tests.simulated.lendingpods import lending
from tests.simulated.reflecting import SHOP, THERE, Pair, pair

Json = dict[str, Any]


async def policy(both: Pair, name: str = "mirror", namespace: str = SHOP, **spec: Any) -> None:
    told = {"objects": [{"kind": "Pod"}], **spec}
    await both.here.create(OVERRIDE_POLICIES, {"metadata": {"name": name}, "spec": told}, namespace)


@asynccontextmanager
async def reflecting() -> AsyncIterator[tuple[Pair, trio.Nursery]]:
    """Returns both clusters, and where the engine is to be started."""
    async with pair() as both, trio.open_nursery() as nursery:
        yield both, nursery
        nursery.cancel_scope.cancel()


def image_of(shadow: Json) -> str:
    found: str = shadow["spec"]["pod"]["containers"][0]["image"]
    return found


async def shadow(both: Pair, image: str) -> Json:
    return await both.comes(
        SHADOW_PODS, "web", lambda found: image_of(found) == image, namespace=THERE
    )


async def test_a_pod_is_changed_on_its_way_and_never_here() -> None:
    async with reflecting() as (both, nursery):
        await policy(both, image={"registry": "mirror.io"}, env=[{"name": "SITE", "value": "m"}])
        await both.start(nursery)
        before = await both.pod("web")
        made = await shadow(both, "mirror.io/nginx")
        assert made["spec"]["pod"]["containers"][0]["env"] == [{"name": "SITE", "value": "m"}]
        after = await both.here.get(PODS, "web", SHOP)
        assert after["spec"] == before["spec"]


async def test_an_edit_rolls_through_and_so_does_the_end_of_a_policy() -> None:
    async with reflecting() as (both, nursery):
        await both.start(nursery)
        await both.pod("web")
        await shadow(both, "nginx")
        await policy(both, image={"tag": "1"})
        await shadow(both, "nginx:1")
        edit = {"spec": {"image": {"tag": "2"}}}
        await both.here.patch(OVERRIDE_POLICIES, "mirror", edit, SHOP)
        await shadow(both, "nginx:2")
        await both.here.delete(OVERRIDE_POLICIES, "mirror", SHOP)
        await shadow(both, "nginx")


async def test_only_the_named_peer_and_only_the_namespace() -> None:
    async with reflecting() as (both, nursery):
        await policy(both, "turins", peers=["turin"], image={"tag": "turin"})
        await policy(both, "others", "default", image={"tag": "other"})
        await both.start(nursery)
        await both.pod("web")
        await shadow(both, "nginx")


async def test_one_in_the_own_namespace_is_for_all_and_comes_first() -> None:
    async with reflecting() as (both, nursery):
        own = both.context.namespace
        await policy(both, "z-all", own, image={"registry": "mirror.io", "tag": "own"})
        await policy(both, "a-shop", image={"tag": "shop"})
        await both.start(nursery)
        await both.pod("web")
        await shadow(both, "mirror.io/nginx:shop")


async def test_every_reflected_kind() -> None:
    kinds = ("ConfigMap", "Service", "Ingress")
    async with reflecting() as (both, nursery):
        await policy(
            both,
            objects=[{"kind": kind} for kind in kinds],
            labels={"site": "milan"},
            ingressClassName="theirs",
            hosts={"shop.example.org": "milan.example.org"},
        )
        await both.start(nursery)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "it"}, "data": {"a": "1"}}, SHOP)
        service = {"metadata": {"name": "it"}, "spec": {"ports": [{"port": 80}]}}
        await both.here.create(SERVICES, service, SHOP)
        rule = {"host": "shop.example.org"}
        ingress = {"metadata": {"name": "it"}, "spec": {"rules": [rule]}}
        await both.here.create(INGRESSES, ingress, SHOP)
        for kind in (CONFIG_MAPS, SERVICES, INGRESSES):
            found = await both.comes(kind, "it", namespace=THERE)
            assert found["metadata"]["labels"]["site"] == "milan"
        assert found["spec"]["ingressClassName"] == "theirs"
        assert found["spec"]["rules"][0]["host"] == "milan.example.org"


async def test_a_missing_path_is_told_on_the_policy_and_the_object_and_stops_nothing() -> None:
    async with reflecting() as (both, nursery):
        engine = await both.start(nursery)
        problems = engine.context.problems
        await nursery.start(OverrideController(both.context, problems).run)
        operation = {"op": "replace", "path": "/spec/hostname", "value": "x"}
        await policy(both, image={"tag": "1"}, patch=[operation])
        await both.pod("web")
        await shadow(both, "nginx:1")
        text = "there is no /spec/hostname to replace in shop/web (pods) at milan"
        await condition(both, "Applied", "False", text)
        await condition(both, "Valid", "True", "")

        async def said() -> bool:
            found = await both.here.list(EVENTS)
            return any(each["reason"] == "OverrideNotApplied" for each in found)

        await eventually(said)
        await both.here.patch(OVERRIDE_POLICIES, "mirror", {"spec": {"patch": None}}, SHOP)
        await condition(both, "Applied", "True", "")


async def test_a_peer_that_is_none_is_told_on_the_policy() -> None:
    async with reflecting() as (both, nursery):
        engine = await both.start(nursery)
        await nursery.start(OverrideController(both.context, engine.context.problems).run)
        await policy(both, image={"tag": "1"}, peers=["milan", "milano"])
        text = "there is no peer with the id milano; those with nodes here: milan"
        await condition(both, "Applied", "False", text)
        await both.pod("web")
        await shadow(both, "nginx:1")
        node = await both.here.get(VIRTUAL_NODES, "milan", "liqo-tenant-milan")
        other = {"metadata": {"name": "milano"}, "spec": {**node["spec"], "clusterID": "milano"}}
        await both.here.create(VIRTUAL_NODES, other, "liqo-tenant-milan")
        await condition(both, "Applied", "True", "")


async def condition(both: Pair, type_: str, status: str, message: str) -> None:
    async def so() -> bool:
        found = await both.here.get(OVERRIDE_POLICIES, "mirror", SHOP)
        conditions = found.get("status", {}).get("conditions") or ()
        told = {each["type"]: (each["status"], each.get("message", "")) for each in conditions}
        return told.get(type_) == (status, message)

    await eventually(so)


async def test_fifty_policies_one_of_which_goes_under_load() -> None:
    async with reflecting() as (both, nursery):
        for number in range(50):
            await policy(both, f"p{number:02}", labels={"last": str(number), f"l{number}": "x"})
        await both.start(nursery)
        for number in range(20):
            await both.pod(f"web-{number}")
        await both.here.delete(OVERRIDE_POLICIES, "p49", SHOP)

        async def all_there() -> bool:
            found = await both.there.list(SHADOW_PODS)
            marks = [each["metadata"]["labels"] for each in found]
            return len(marks) == 20 and all(
                each["last"] == "48" and "l49" not in each and "l0" in each for each in marks
            )

        await eventually(all_there, seconds=60)


async def test_a_running_pod_follows_and_nothing_is_said_of_its_changes() -> None:
    async with lending() as (both, _):
        await policy(both, image={"registry": "mirror.io"}, requests={"cpu": "250m"})
        await both.pod("web")
        await running(both, "web")

        async def there(image: str) -> Json:
            def so(pod: Json) -> bool:
                return bool(pod["spec"]["containers"][0]["image"] == image)

            return await both.comes(PODS, "web", so, namespace=THERE)

        first = await there("mirror.io/nginx")
        assert first["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "250m"
        edit = {"spec": {"image": {"registry": "other.io"}}}
        await both.here.patch(OVERRIDE_POLICIES, "mirror", edit, SHOP)
        second = await there("other.io/nginx")
        assert second["metadata"]["uid"] == first["metadata"]["uid"]
        for _ in range(20):
            await trio.sleep(0.5)
            pod = await both.here.get(PODS, "web", SHOP)
            assert not [each for each in pod["status"]["conditions"] if each["type"] == CHANGED]
        assert pod["spec"]["containers"][0]["image"] == "nginx"
