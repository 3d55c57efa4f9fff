"""One object here, reflected to two peers: whose word is shown, and that nobody fights for it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, CUSTOM_RESOURCES, EVENTS, INGRESSES
from liqod.kube.selection import Selection
from liqod.plugins.contracts import Json, Plan, Reflector, RemoteKind, Several, View, Watch
from liqod.plugins.loader import OWN
from liqod.plugins.reflectors import ingresses
from liqod.reflection import writebackoff
from liqod.reflection.statuscleanup import Retractions
from liqod.reflection.timings import ORDINARY, ReflectionTimings
from liqod.runtime.backoff import Backoff
from tests.simulated.borrower import eventually
from tests.simulated.plugins.test_thirdparty import DEFINITION, GADGETS, served
from tests.simulated.reflecting import SHOP, THERE, Pair, beside, pair
from tests.simulated.reflection.test_reflection_plans import only, remote_object

LAMP = {"metadata": {"name": "lamp"}, "spec": {"size": 2}}


def outgoing(gadget: Json, view: View) -> Plan:
    return Plan(remote=(remote_object(GADGETS, gadget["metadata"]["name"], spec=gadget["spec"]),))


def incoming(gadget: Json, remote: tuple[Json, ...], view: View) -> Plan:
    """The status of the remote object, where it differs: as written for a single peer."""
    status = remote[0].get("status") if remote else None
    return Plan() if status in (None, gadget.get("status")) else Plan(status=status)


def by_peer(gadget: Json, remote: tuple[Json, ...], view: View) -> Plan:
    status = remote[0].get("status") if remote else None
    return Plan() if status is None else Plan(status={"at": {view.names.peer: status["light"]}})


def combine(gadget: Json, statuses: Any) -> Json:
    return {"light": "+".join(f"{peer}:{each['light']}" for peer, each in statuses.items())}


def with_a_map(gadget: Json, remote: tuple[Json, ...], view: View) -> Plan:
    """The status, and a ConfigMap here that says the same."""
    light = ((remote[0].get("status") or {}) if remote else {}).get("light")
    if light is None:
        return Plan()
    name = gadget["metadata"]["name"]
    return Plan(
        status={"light": light}, local=(remote_object(CONFIG_MAPS, name, data={"light": light}),)
    )


def reflector(**more: Any) -> Reflector:
    fields = {
        "name": "gadgets",
        "kind": GADGETS,
        "outgoing": outgoing,
        "incoming": incoming,
        "remote": (RemoteKind(kind=GADGETS, watch=Watch.FULL),),
    }
    return Reflector(**{**fields, **more})


class Three(NamedTuple):
    milan: Pair
    turin: Pair
    nursery: trio.Nursery

    async def light(self, at: Pair, light: str) -> None:
        await at.comes(GADGETS, "lamp")
        status = {"status": {"light": light}}
        await at.there.patch(GADGETS, "lamp", status, THERE, subresource="status")

    async def shows(self, status: Json) -> Json:
        def so(found: Json) -> bool:
            return (found.get("status") or {}) == status

        return await self.milan.comes(GADGETS, "lamp", so, client=self.milan.here, namespace=SHOP)

    async def version(self) -> str:
        found: Json = await self.milan.here.get(GADGETS, "lamp", SHOP)
        return str(found["metadata"]["resourceVersion"])


@asynccontextmanager
async def three(timings: ReflectionTimings = ORDINARY, **more: Any) -> AsyncIterator[Three]:
    """Rome with a lamp that is at milan and at turin."""
    async with (
        pair(plugins=only(reflector(**more))) as milan,
        beside(milan, "turin") as turin,
        trio.open_nursery() as nursery,
    ):
        for client in (milan.here, milan.there, turin.there):
            await client.create(CUSTOM_RESOURCES, DEFINITION)
        for client in (milan.here, milan.there, turin.there):
            await eventually(partial(served, client))
        await nursery.start(Retractions(milan.context, milan.arbiter).run)
        await milan.start(nursery, timings=timings)
        await turin.start(nursery, timings=timings)
        await milan.here.create(GADGETS, LAMP, SHOP)
        yield Three(milan, turin, nursery)
        nursery.cancel_scope.cancel()


async def test_the_first_peer_is_shown_and_nobody_writes_twice():
    async with three() as of:
        await of.light(of.turin, "green")
        await of.shows({"light": "green"})
        await of.light(of.milan, "red")
        await of.shows({"light": "red"})
        await of.light(of.turin, "blue")
        before = await of.version()
        await trio.sleep(1.5)
        assert await of.version() == before
        # Milan has it no more: turin's word counts, and with turin's it ends.
        await of.milan.desire(None)
        await of.shows({"light": "blue"})
        await of.turin.desire(None)
        await of.shows({})


async def test_each_peer_has_fields_of_its_own():
    async with three(incoming=by_peer, several=Several.BY_PEER) as of:
        await of.light(of.turin, "green")
        await of.light(of.milan, "red")
        await of.shows({"at": {"milan": "red", "turin": "green"}})
        of.turin.stop()
        await trio.sleep(0.1)  # what is under way says what it has to say
        of.milan.arbiter.end("turin")  # as when the peer is gone
        await of.shows({"at": {"milan": "red"}})


async def test_what_peers_say_is_merged():
    async with three(several=Several.MERGED, combine=combine) as of:
        await of.light(of.turin, "green")
        await of.light(of.milan, "red")
        await of.shows({"light": "milan:red+turin:green"})
        await of.light(of.turin, "blue")
        await of.shows({"light": "milan:red+turin:blue"})
        before = await of.version()
        await trio.sleep(1.0)
        assert await of.version() == before
        await of.milan.desire(None)
        await of.shows({"light": "turin:blue"})


async def test_what_is_made_here_is_the_first_ones_and_goes_with_the_last():
    async with three(incoming=with_a_map, local=(CONFIG_MAPS,)) as of:
        here: dict[str, Any] = {"client": of.milan.here, "namespace": SHOP}

        async def made(light: str) -> Json:
            def so(found: Json) -> bool:
                return bool(found["data"]["light"] == light)

            return await of.milan.comes(CONFIG_MAPS, "lamp", so, **here)

        await of.light(of.turin, "green")
        first = await made("green")
        await of.light(of.milan, "red")
        second = await made("red")
        await trio.sleep(1.0)
        assert await made("red") == second
        assert first["metadata"]["uid"] == second["metadata"]["uid"]
        await of.milan.desire(None)
        await made("green")
        await of.turin.desire(None)
        await of.milan.goes(CONFIG_MAPS, "lamp", **here)
        await of.shows({})


async def test_a_status_that_somebody_else_undoes_is_let_be():
    long = ReflectionTimings(contested=Backoff(first=600.0, last=600.0))
    async with three(timings=long) as of:
        await of.light(of.milan, "red")
        await of.shows({"light": "red"})
        client = of.milan.here
        for _ in range(writebackoff.TIMES - 1):
            undone = {"status": {"light": "off"}}
            await client.patch(GADGETS, "lamp", undone, SHOP, subresource="status")
            await of.shows({"light": "red"})
        await client.patch(GADGETS, "lamp", undone, SHOP, subresource="status")
        await trio.sleep(1.0)
        await of.shows({"light": "off"})
        events = await client.list(EVENTS, Selection(SHOP))
        (told,) = [each for each in events if each["reason"] == "StatusContested"]
        assert "somebody else changes the status from milan" in told["message"]


async def test_an_ingress_shows_the_addresses_of_both_peers():
    async with (
        pair(plugins=only(ingresses.REFLECTOR, package=OWN)) as milan,
        beside(milan, "turin") as turin,
        trio.open_nursery() as nursery,
    ):
        await nursery.start(Retractions(milan.context, milan.arbiter).run)
        await milan.start(nursery)
        await turin.start(nursery)
        backend = {"service": {"name": "web", "port": {"number": 80}}}
        path = {"path": "/", "pathType": "Prefix", "backend": backend}
        spec = {"ingressClassName": "peers", "rules": [{"http": {"paths": [path]}}]}
        await milan.here.create(INGRESSES, {"metadata": {"name": "shop"}, "spec": spec}, SHOP)
        for at, address in (milan, "192.0.2.1"), (turin, "192.0.2.2"):
            remote = await at.comes(INGRESSES, "shop")
            assert "ingressClassName" not in remote["spec"]
            status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
            await at.there.patch(INGRESSES, "shop", status, THERE, subresource="status")

        async def shows(*addresses: str) -> None:
            wanted = [{"ip": each} for each in addresses]

            def so(found: Json) -> bool:
                balancer = (found.get("status") or {}).get("loadBalancer") or {}
                return (balancer.get("ingress") or []) == wanted

            await milan.comes(INGRESSES, "shop", so, client=milan.here, namespace=SHOP)

        await shows("192.0.2.1", "192.0.2.2")
        await milan.desire(None)
        await shows("192.0.2.2")
        await turin.desire(None)
        await shows()
        nursery.cancel_scope.cancel()
