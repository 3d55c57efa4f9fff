"""Cases of liqod's Kubernetes client, run against embedded and real API servers alike.

Import the cases into a module that has the fixtures ``given`` (an administrator's credentials) and
``place`` (a namespace of the test's own).
"""

from functools import partial
from typing import Any

import msgspec
import pytest
import trio

from liqod import errors
from liqod.apimachinery.kinds import (
    ACCESS_REVIEWS,
    CONFIG_MAPS,
    NAMESPACES,
    SECRETS,
    SERVICES,
)
from liqod.apimachinery.meta import Partial
from liqod.kube.cache.informer import SharedInformer
from liqod.kube.cache.informers import Informers
from liqod.kube.cache.store import StoreChange
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials
from liqod.kube.leaderelection import LeaderElection
from liqod.kube.selection import Selection


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"case": "kube"}}, "data": data}


async def until(happens, seconds: float = 30.0) -> None:
    """Wait for something that is about to be so."""
    with trio.fail_after(seconds):
        while not happens():  # noqa: ASYNC110  # of another program's doing
            await trio.sleep(0.01)


async def test_the_life_of_an_object(given: Credentials, place: str) -> None:
    async with Client(given) as client:
        made = await client.create(CONFIG_MAPS, config_map("one", a="1"), place)
        assert made.metadata.uid
        assert made.metadata.namespace == place
        with pytest.raises(errors.AlreadyExists):
            await client.create(CONFIG_MAPS, config_map("one"), place)

        found = await client.get(CONFIG_MAPS, "one", place)
        assert found["data"] == {"a": "1"}
        meta = await client.get(CONFIG_MAPS, "one", place, decode=Partial)
        assert meta.kind == "PartialObjectMetadata"
        assert meta.metadata.uid == made.metadata.uid

        patched = await client.patch(CONFIG_MAPS, "one", {"data": {"a": None, "b": "2"}}, place)
        assert patched.metadata.resource_version != made.metadata.resource_version
        stale = {"metadata": {"resourceVersion": made.metadata.resource_version}}
        with pytest.raises(errors.Conflict):
            await client.patch(CONFIG_MAPS, "one", stale, place)
        fresh = await client.get(CONFIG_MAPS, "one", place)
        assert fresh["data"] == {"b": "2"}
        updated = await client.update(CONFIG_MAPS, fresh | {"data": {"c": "3"}})
        assert updated.metadata.uid == made.metadata.uid
        with pytest.raises(errors.Conflict):
            await client.update(CONFIG_MAPS, fresh)

        with pytest.raises(errors.Conflict):
            await client.delete(CONFIG_MAPS, "one", place, uid="another")
        assert await client.delete(CONFIG_MAPS, "one", place, uid=made.metadata.uid)
        assert not await client.delete(CONFIG_MAPS, "one", place)
        assert await client.find(CONFIG_MAPS, "one", place) is None
        with pytest.raises(errors.NotFound, match='configmaps "one" not found'):
            await client.get(CONFIG_MAPS, "one", place)


async def test_writes_answer_with_metadata_only(given: Credentials, place: str) -> None:
    async with Client(given) as client:
        await client.create(CONFIG_MAPS, config_map("large", a="x" * 100_000), place)
        before = client.stats.bytes_in
        await client.patch(CONFIG_MAPS, "large", {"data": {"b": "1"}}, place)
        await client.list(CONFIG_MAPS, Selection(place, metadata_only=True))
        assert client.stats.bytes_in - before < 10_000


async def test_what_is_not_so(given: Credentials, place: str) -> None:
    async with Client(given) as client:
        with pytest.raises(errors.Invalid):
            await client.create(CONFIG_MAPS, config_map("Not A Name"), place)
        await client.create(CONFIG_MAPS, config_map("x"), place)
        with pytest.raises(errors.Invalid):
            await client.patch(CONFIG_MAPS, "x", b"{", place)
        with pytest.raises(errors.NotFound):
            await client.create(CONFIG_MAPS, config_map("x"), "no-such-namespace")
        with pytest.raises(errors.NotFound):
            await client.raw("GET", "/apis/none.example.com/v1/things")
        anonymous = msgspec.structs.replace(given, client_cert=None, client_key=None, token="no")
        client.renew(anonymous)
        with pytest.raises(errors.Unauthorized):
            await client.list(CONFIG_MAPS, Selection(place))
        client.renew(given)
        await client.list(CONFIG_MAPS, Selection(place))


async def test_dry_run_and_reviews(given: Credentials, place: str) -> None:
    async with Client(given) as client:
        made = await client.create_full(CONFIG_MAPS, config_map("dry", a="1"), place, dry_run=True)
        assert made["data"] == {"a": "1"}
        assert await client.find(CONFIG_MAPS, "dry", place) is None
        attributes = {"verb": "get", "resource": "pods", "namespace": place}
        who = {"user": "anybody", "groups": ["system:masters"]}
        review = {"metadata": {}, "spec": {**who, "resourceAttributes": attributes}}
        answer = await client.create_full(ACCESS_REVIEWS, review)
        assert answer["status"]["allowed"] is True


async def test_apply(given: Credentials, place: str) -> None:
    service = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80, "name": "http"}]}}
    async with Client(given) as client:
        await client.apply(SERVICES, service, place, manager="one")
        labelled = {"metadata": {"name": "s", "labels": {"l": "2"}}}
        await client.apply(SERVICES, labelled, place, manager="two")
        found = await client.get(SERVICES, "s", place)
        assert found["spec"]["ports"][0]["port"] == 80
        assert found["metadata"]["labels"] == {"l": "2"}
        with pytest.raises(errors.Conflict):
            await client.apply(
                SERVICES,
                {"metadata": {"name": "s", "labels": {"l": "3"}}},
                place,
                manager="three",
                force=False,
            )


async def test_lists_in_pages(given: Credentials, place: str) -> None:
    async with Client(given) as client:
        async with trio.open_nursery() as nursery:
            for number in range(25):
                body = config_map(f"p{number:02}")
                nursery.start_soon(client.create, CONFIG_MAPS, body, place)
        found = await client.list(CONFIG_MAPS, Selection(place, labels="case=kube"), limit=10)
        assert [item["metadata"]["name"] for item in found] == [f"p{n:02}" for n in range(25)]
        assert {item["kind"] for item in found} == {"ConfigMap"}
        pages = [page async for page in client.pages(CONFIG_MAPS, Selection(place), limit=10)]
        assert len(pages) >= 3
        assert len({page.resource_version for page in pages}) == 1
        only = await client.list(
            CONFIG_MAPS, Selection(place, fields="metadata.name=p07"), decode=Partial
        )
        assert [item.metadata.name for item in only] == ["p07"]


@pytest.mark.parametrize("watch_list", [True, False])
@pytest.mark.parametrize("metadata_only", [True, False])
async def test_following(
    given: Credentials, place: str, watch_list: bool, metadata_only: bool
) -> None:
    async with Client(given) as client, trio.open_nursery() as nursery:
        client.watch_list = watch_list
        await client.create(CONFIG_MAPS, config_map("before", a="1"), place)
        informer = SharedInformer(
            client, CONFIG_MAPS, Selection(place, labels="case=kube", metadata_only=metadata_only)
        )
        changes: list[StoreChange] = []
        informer.subscribe(changes.append)
        await nursery.start(informer.run)
        store = informer.store
        assert set(store) == {(place, "before")}
        assert client.watch_list is watch_list  # the server knows it, where it was asked

        await client.patch(CONFIG_MAPS, "before", {"metadata": {"labels": {"x": "y"}}}, place)
        await client.create(CONFIG_MAPS, config_map("after", a="2"), place)
        await client.create(CONFIG_MAPS, {"metadata": {"name": "unlabelled"}}, place)
        await until(lambda: (place, "after") in store)
        found = store.decode((place, "before"), dict)
        assert found is not None
        assert found["metadata"]["labels"]["x"] == "y"
        assert "managedFields" not in found["metadata"]
        assert ("data" in found) is not metadata_only
        await client.patch(CONFIG_MAPS, "after", {"metadata": {"labels": {"case": None}}}, place)
        await client.delete(CONFIG_MAPS, "before", place)
        await until(lambda: len(store) == 0)
        assert len([c for c in changes if c.old is None]) == 2
        assert len([c for c in changes if c.new is None]) == 2
        assert client.stats.requests["watch", "configmaps"] == 1
        nursery.cancel_scope.cancel()


async def test_a_list_and_a_watch_say_the_same(given: Credentials, place: str) -> None:
    """Byte for byte, or listing again would look like a change of everything."""
    async with Client(given) as client, trio.open_nursery() as nursery:
        informer = SharedInformer(client, CONFIG_MAPS, Selection(place))
        await nursery.start(informer.run)
        await client.create(CONFIG_MAPS, config_map("same", a="<1>", b="é"), place)
        await until(lambda: (place, "same") in informer.store)
        pages = [page async for page in client.pages(CONFIG_MAPS, Selection(place))]
        for page in pages:
            for item in page.found:
                assert item.body == informer.store.get(item.key)
        nursery.cancel_scope.cancel()


async def test_bookmarks_come(given: Credentials, place: str) -> None:
    async with Client(given) as client:
        (page,) = [page async for page in client.pages(SECRETS, Selection(place))]
        seconds = 2
        async with client.watch(
            SECRETS, Selection(place), resource_version=page.resource_version, seconds=seconds
        ) as watch:
            started = trio.current_time()
            while await watch.next(10) is not None:
                pass
            assert trio.current_time() - started < seconds + 3


async def test_sharing(given: Credentials, place: str) -> None:
    async with Client(given) as client, trio.open_nursery() as nursery:
        informers = Informers(client, nursery)
        async with (
            informers.share(NAMESPACES) as all_of_them,
            informers.share(SECRETS, Selection(place)) as local,
        ):
            assert ("", place) in all_of_them.store
            await client.create(SECRETS, {"metadata": {"name": "s"}}, place)
            await until(lambda: (place, "s") in local.store)
        nursery.cancel_scope.cancel()


async def test_leading_and_handing_over(given: Credentials, place: str) -> None:
    times: dict[str, float] = {}

    async def lead(name: str, scope: trio.CancelScope) -> None:
        async with Client(given) as client:
            with scope:
                async with LeaderElection(client, "leader", place, name).leadership():
                    times[name] = trio.current_time()
                    await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        one, two = trio.CancelScope(), trio.CancelScope()
        nursery.start_soon(partial(lead, "one", one))
        await until(lambda: "one" in times)
        nursery.start_soon(partial(lead, "two", two))
        await trio.sleep(0.5)
        one.cancel()
        stopped = trio.current_time()
        await until(lambda: "two" in times)
        assert times["two"] - stopped < 1
        nursery.cancel_scope.cancel()


async def test_sessions_are_resumed(given: Credentials, place: str) -> None:
    async with Client(given) as client:
        await client.list(CONFIG_MAPS, Selection(place))
        async with client.watch(CONFIG_MAPS, Selection(place), initial=True) as watch:
            wire: Any = watch.stream.connection.wire
            assert wire.resumed
            await watch.next(5)
