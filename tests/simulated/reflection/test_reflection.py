"""The engine between two embedded clusters: objects that follow their namespace."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
import trio.testing

from liqod.apimachinery.kinds import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    EVENTS,
    PODS,
    SECRETS,
    SERVICES,
)
from liqod.errors import Forbidden
from liqod.kube.selection import Selection
from liqod.reflection.timings import ReflectionTimings
from liqod.resources import SHADOW_ENDPOINT_SLICES, SHADOW_PODS
from simulator.faults import Fault
from tests.simulated.borrower import eventually
from tests.simulated.reflecting import SHOP, THERE, Pair, pair

OURS = {"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"}


@asynccontextmanager
async def running(**options: Any) -> AsyncIterator[tuple[Pair, trio.Nursery]]:
    engine = options.pop("engine", {})
    async with pair(**options) as both, trio.open_nursery() as nursery:
        await both.start(nursery, **engine)
        yield both, nursery
        nursery.cancel_scope.cancel()


async def test_data_follows_is_put_right_and_goes():
    async with running() as (both, _):
        await both.here.create(
            CONFIG_MAPS, {"metadata": {"name": "conf"}, "data": {"a": "1"}}, SHOP
        )
        made = await both.comes(CONFIG_MAPS, "conf", lambda found: found["data"] == {"a": "1"})
        assert made["metadata"]["labels"] == OURS

        await both.here.patch(CONFIG_MAPS, "conf", {"data": {"a": None, "b": "2"}}, SHOP)
        await both.comes(CONFIG_MAPS, "conf", lambda found: found["data"] == {"b": "2"})

        await both.there.patch(CONFIG_MAPS, "conf", {"data": {"b": "edited", "c": "3"}}, THERE)
        await both.comes(CONFIG_MAPS, "conf", lambda found: found["data"] == {"b": "2"})

        await both.there.delete(CONFIG_MAPS, "conf", THERE)
        again = await both.comes(
            CONFIG_MAPS, "conf", lambda found: found["metadata"]["uid"] != made["metadata"]["uid"]
        )
        assert again["data"] == {"b": "2"}

        await both.here.delete(CONFIG_MAPS, "conf", SHOP)
        await both.goes(CONFIG_MAPS, "conf")


async def test_the_root_ca_follows_under_its_other_name_whatever_the_policy():
    text = '[reflection.policies]\nconfigmaps = "AllowList"\n'
    async with running(text=text) as (both, _):
        await both.comes(CONFIG_MAPS, "kube-root-ca.crt.rome")
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "quiet"}}, SHOP)
        allowed = {"name": "loud", "annotations": {"liqo.io/allow-reflection": "true"}}
        await both.here.create(CONFIG_MAPS, {"metadata": allowed}, SHOP)
        await both.comes(CONFIG_MAPS, "loud")
        assert await both.there.find(CONFIG_MAPS, "quiet", THERE) is None


@pytest.mark.parametrize("before", [False, True])
async def test_one_that_has_the_name_of_the_root_ca_there_stays_and_is_told(before: bool):
    """Pods there know this cluster's API server by it, whichever of the two was first."""
    other = {"metadata": {"name": "kube-root-ca.crt.rome"}, "data": {"ca.crt": "mine"}}
    async with pair() as both, trio.open_nursery() as nursery:
        if before:
            await both.here.create(CONFIG_MAPS, other, SHOP)
        await both.start(nursery)
        own = (await both.here.get(CONFIG_MAPS, "kube-root-ca.crt", SHOP))["data"]

        def is_own(found: dict[str, Any]) -> bool:
            return bool(found["data"] == own)

        made = await both.comes(CONFIG_MAPS, "kube-root-ca.crt.rome", is_own)
        if not before:
            await both.here.create(CONFIG_MAPS, other, SHOP)

        async def told() -> bool:
            said = await both.here.list(EVENTS, Selection(SHOP))
            return any(
                each["involvedObject"]["name"] == "kube-root-ca.crt.rome"
                and "is what kube-root-ca.crt is here: give it another name" in each["message"]
                for each in said
            )

        await eventually(told)
        await both.here.delete(CONFIG_MAPS, "kube-root-ca.crt.rome", SHOP)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "last"}}, SHOP)
        await both.comes(CONFIG_MAPS, "last")
        found = await both.there.get(CONFIG_MAPS, "kube-root-ca.crt.rome", THERE)
        assert (found["metadata"]["uid"], found["data"]) == (made["metadata"]["uid"], own)
        nursery.cancel_scope.cancel()


async def test_an_annotated_object_stays_and_its_copy_goes():
    async with running() as (both, _):
        await both.here.create(SECRETS, {"metadata": {"name": "cred"}}, SHOP)
        await both.comes(SECRETS, "cred")
        note = {"metadata": {"annotations": {"liqo.io/skip-reflection": "true"}}}
        await both.here.patch(SECRETS, "cred", note, SHOP)
        await both.goes(SECRETS, "cred")
        note["metadata"]["annotations"]["liqo.io/skip-reflection"] = "false"
        await both.here.patch(SECRETS, "cred", note, SHOP)
        await both.comes(SECRETS, "cred")


async def test_secrets_of_trust_stay_wherever_they_lie_and_what_crossed_once_comes_back():
    async with running() as (both, _):
        await both.here.create(SECRETS, {"metadata": {"name": "cred"}}, SHOP)
        await both.comes(SECRETS, "cred")
        mark = {"metadata": {"labels": {"liqo.io/identity-type": "ControlPlane"}}}
        await both.here.patch(SECRETS, "cred", mark, SHOP)
        await both.goes(SECRETS, "cred")
        allow = {"liqo.io/allow-reflection": "true"}
        for name in ("authentication-keys", "liqod-webhook"):
            meta = {"name": name, "annotations": allow}
            await both.here.create(SECRETS, {"metadata": meta}, SHOP)
        await both.here.create(SECRETS, {"metadata": {"name": "later"}}, SHOP)
        await both.comes(SECRETS, "later")
        for name in ("authentication-keys", "liqod-webhook"):
            assert await both.there.find(SECRETS, name, THERE) is None
        told = {
            each["involvedObject"]["name"]
            for each in await both.here.list(EVENTS, Selection(SHOP))
            if each["message"].startswith("it does not leave this cluster: ")
        }
        assert {"authentication-keys", "liqod-webhook", "cred"} <= told


async def test_an_object_of_somebody_else_is_left_alone_and_told_once():
    async with running() as (both, _):
        theirs = {"metadata": {"name": "conf"}, "data": {"mine": "yes"}}
        await both.there.create(CONFIG_MAPS, theirs, THERE)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "conf"}, "data": {}}, SHOP)

        async def warned() -> bool:
            return bool(await both.here.list(EVENTS, Selection(SHOP)))

        await eventually(warned)
        await both.here.patch(CONFIG_MAPS, "conf", {"data": {"a": "1"}}, SHOP)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "later"}}, SHOP)
        await both.comes(CONFIG_MAPS, "later")
        (event,) = await both.here.list(EVENTS, Selection(SHOP))
        assert (event["reason"], event["type"]) == ("FailedReflection", "Warning")
        assert event["involvedObject"]["name"] == "conf"
        assert (await both.there.get(CONFIG_MAPS, "conf", THERE))["data"] == {"mine": "yes"}


async def test_what_cannot_be_told_now_is_told_later():
    async with running() as (both, _):
        both.rome.faults.add(Fault(verb="create", path="/events", status=500, times=1))
        await both.there.create(CONFIG_MAPS, {"metadata": {"name": "conf"}}, THERE)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "conf"}}, SHOP)

        async def warned() -> bool:
            return bool(await both.here.list(EVENTS, Selection(SHOP)))

        await eventually(warned, seconds=10)


async def test_a_name_that_somebody_else_gives_up_is_taken():
    soon = ReflectionTimings(free_again=0.2)
    async with running(engine={"timings": soon}) as (both, _):
        theirs = {"metadata": {"name": "conf"}, "data": {"mine": "yes"}}
        await both.there.create(CONFIG_MAPS, theirs, THERE)
        await both.here.create(
            CONFIG_MAPS, {"metadata": {"name": "conf"}, "data": {"a": "1"}}, SHOP
        )

        async def warned() -> bool:
            return bool(await both.here.list(EVENTS, Selection(SHOP)))

        await eventually(warned)
        await both.there.delete(CONFIG_MAPS, "conf", THERE)
        await both.comes(CONFIG_MAPS, "conf", lambda found: found["data"] == {"a": "1"})


async def test_what_the_peer_does_not_take_is_told_once():
    async with running() as (both, _):
        refusal = Fault(verb="create", path=f"/namespaces/{THERE}/configmaps", status=422)
        both.milan.faults.add(refusal)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "conf"}}, SHOP)

        async def told() -> list[str]:
            events = await both.here.list(EVENTS, Selection(SHOP))
            said = [e["message"] for e in events if e["involvedObject"]["name"] == "conf"]
            return [each for each in said if "ConfigMap refused by milan: " in each]

        await eventually(lambda: told_once(told))
        both.milan.faults.clear()
        changed = {"metadata": {"labels": {"changed": "yes"}}}
        await both.here.patch(CONFIG_MAPS, "conf", changed, SHOP)
        await both.comes(CONFIG_MAPS, "conf")
        assert len(await told()) == 1


async def told_once(told: Any) -> bool:
    return len(await told()) == 1


async def test_a_service_of_somebody_else_is_not_taken_over():
    async with running() as (both, _):
        theirs = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 1}]}}
        await both.there.create(SERVICES, theirs, THERE)
        ours = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
        await both.here.create(SERVICES, ours, SHOP)

        async def warned() -> bool:
            return bool(await both.here.list(EVENTS, Selection(SHOP)))

        await eventually(warned)
        assert (await both.there.get(SERVICES, "web", THERE))["spec"]["ports"][0]["port"] == 1


async def test_a_service_follows_by_apply_and_its_slices_as_shadows():
    async with running() as (both, _):
        port = {"name": "http", "port": 80, "targetPort": 8080}
        web = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [port]}}
        await both.here.create(SERVICES, web, SHOP)
        made = await both.comes(SERVICES, "web")
        assert made["spec"]["clusterIP"].startswith("10.96.")
        await both.here.create(
            ENDPOINT_SLICES,
            {
                "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
                "addressType": "IPv4",
                "endpoints": [
                    {"addresses": ["10.10.0.7"], "nodeName": "rome-node-0"},
                    {"addresses": ["10.30.0.7"], "nodeName": "milan"},
                ],
                "ports": [port | {"targetPort": None}],
            },
            SHOP,
        )
        shadow = await both.comes(SHADOW_ENDPOINT_SLICES, "web-1")
        (endpoint,) = shadow["spec"]["template"]["endpoints"]
        assert endpoint["addresses"] == ["10.10.0.7"]

        await both.here.patch(SERVICES, "web", {"spec": {"ports": [port | {"port": 81}]}}, SHOP)
        await both.comes(SERVICES, "web", lambda found: found["spec"]["ports"][0]["port"] == 81)

        # What the Service says of itself counts for its slices.
        note = {"metadata": {"annotations": {"liqo.io/skip-reflection": "true"}}}
        await both.here.patch(SERVICES, "web", note, SHOP)
        await both.goes(SERVICES, "web")
        await both.goes(SHADOW_ENDPOINT_SLICES, "web-1")


async def test_no_endpoints_cross_where_addresses_do_not():
    async with running(text='[peer_defaults]\npod_network = "none"\n') as (both, _):
        endpoint = {"addresses": ["10.10.0.7"]}
        made = {"metadata": {"name": "web-1"}, "addressType": "IPv4", "endpoints": [endpoint]}
        await both.here.create(ENDPOINT_SLICES, made, SHOP)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "later"}}, SHOP)
        await both.comes(CONFIG_MAPS, "later")
        assert await both.there.list(SHADOW_ENDPOINT_SLICES, Selection(THERE)) == []


async def test_what_happened_while_nobody_looked_is_made_up_for():
    async with pair() as both, trio.open_nursery() as nursery:
        for name in ("kept", "gone"):
            await both.here.create(
                CONFIG_MAPS, {"metadata": {"name": name}, "data": {"a": "1"}}, SHOP
            )
        await both.start(nursery)
        for name in ("kept", "gone"):
            await both.comes(CONFIG_MAPS, name)
        both.stop()
        await both.here.delete(CONFIG_MAPS, "gone", SHOP)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "new"}}, SHOP)
        await both.there.patch(CONFIG_MAPS, "kept", {"data": {"a": "edited"}}, THERE)
        await both.start(nursery)
        await both.goes(CONFIG_MAPS, "gone")
        await both.comes(CONFIG_MAPS, "new")
        await both.comes(CONFIG_MAPS, "kept", lambda found: found["data"] == {"a": "1"})
        nursery.cancel_scope.cancel()


async def test_nothing_is_written_that_is_not_different():
    async with pair() as both, trio.open_nursery() as nursery:
        for number in range(5):
            secret = {"a": base64.b64encode(b"1").decode()}
            await both.here.create(
                SECRETS, {"metadata": {"name": f"s-{number}"}, "data": secret}, SHOP
            )
        await both.start(nursery)
        for number in range(5):
            await both.comes(SECRETS, f"s-{number}")
        await both.comes(CONFIG_MAPS, "kube-root-ca.crt.rome")
        both.stop()
        before = both.requests()
        await both.start(nursery)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "last"}}, SHOP)
        await both.comes(CONFIG_MAPS, "last")
        await trio.sleep(0.2)
        asked = [each for each in both.since(before) if each[0] not in ("list", "watch")]
        # Content that has no generation is read once by an engine that has just started.
        assert asked == [("create", "configmaps"), ("get", "configmaps"), *[("get", "secrets")] * 5]
        nursery.cancel_scope.cancel()


async def test_pods_made_for_consumers_are_not_held_a_second_time():
    async with pair() as both, trio.open_nursery() as nursery:
        engine = await both.start(nursery)
        guest = {"labels": {"liqo.io/managed-by": "shadowpod"}}
        await both.pod("guest", node="", metadata=guest)
        await both.pod("web")
        await both.comes(SHADOW_PODS, "web")
        assert engine.context.wide[PODS].store.keys() == {(SHOP, "web")}
        nursery.cancel_scope.cancel()


async def test_what_could_not_be_written_follows_when_the_peer_answers_again():
    async with running() as (both, _):
        await both.comes(CONFIG_MAPS, "kube-root-ca.crt.rome")
        both.link.set(False, "its API server does not answer")
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "conf"}}, SHOP)
        await trio.sleep(0.3)
        assert await both.there.find(CONFIG_MAPS, "conf", THERE) is None
        both.link.set(True, "its API server answers")
        await both.comes(CONFIG_MAPS, "conf")


async def test_keys_that_the_peer_takes_from_nobody_are_left_out_and_told(monkeypatch):
    """The embedded server evaluates no policies, so the client speaks as a real one does."""
    said = "denied request: annotations that are not for guests: a.io/b, c.io/d"
    async with running() as (both, _):
        (client,) = both.identities.slices.values()
        create = client.create

        async def guarded(kind: Any, body: Any, namespace: Any = None) -> Any:
            if "a.io/b" in body["metadata"].get("annotations", {}):
                raise Forbidden(said)
            return await create(kind, body, namespace)

        monkeypatch.setattr(client, "create", guarded)
        notes = {"a.io/b": "x", "c.io/d": "y", "note": "z"}
        for name in ("first", "second"):
            meta = {"name": name, "annotations": notes}
            await both.here.create(CONFIG_MAPS, {"metadata": meta}, SHOP)
            found = await both.comes(CONFIG_MAPS, name)
            assert notes.keys() & found["metadata"]["annotations"].keys() == {"note"}

        async def told() -> bool:
            events = await both.here.list(EVENTS, Selection(SHOP))
            about = [each for each in events if each["reason"] == "LeftOut"]
            assert all("takes no annotations a.io/b, c.io/d" in each["message"] for each in about)
            return {each["involvedObject"]["name"] for each in about} == {"first", "second"}

        await eventually(told)
