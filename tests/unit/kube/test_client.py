"""The verbs: what goes over the wire, what comes back, and what each refusal is called."""

import json

import msgspec
import pytest
import trio

from liqod import errors
from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, PODS, SERVICE_ACCOUNTS, SERVICES
from liqod.apimachinery.meta import Partial
from liqod.apimachinery.rawobjects import MAX_OBJECT
from liqod.kube.failures import TooLarge
from liqod.kube.selection import Selection
from tests.unit.kube.peers import Asked, listing, peer, pod

PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
PARTIAL_LIST = PARTIAL.replace("Metadata;", "MetadataList;")


async def ok(asked: Asked) -> None:
    await asked.reply(200, pod("p", version=7))


async def once(call, answer=ok):
    """The request that one call makes, and its result."""
    async with peer(answer) as (server, client):
        result = await call(client)
    (asked,) = server.asked
    return asked, result


async def test_get():
    asked, found = await once(lambda client: client.get(PODS, "p", "a"))
    assert (asked.method, asked.path) == ("GET", "/api/v1/namespaces/a/pods/p")
    assert asked.headers["accept"] == "application/json"
    assert asked.headers["user-agent"] == "liqod"
    assert asked.headers["host"] == "api.test:8080"
    assert found["metadata"]["name"] == "p"


async def test_get_typed_and_of_a_subresource():
    asked, found = await once(lambda client: client.get(PODS, "p", "a", decode=Partial))
    assert asked.path == "/api/v1/namespaces/a/pods/p"
    assert asked.headers["accept"] == PARTIAL
    assert found.metadata.resource_version == "7"


async def test_find_gives_none_for_what_is_not_there():
    async def missing(asked: Asked) -> None:
        await asked.refuse(404, "NotFound", 'pods "p" not found')

    _, found = await once(lambda client: client.find(PODS, "p", "a"), missing)
    assert found is None


async def test_an_eviction_is_answered_by_a_status():
    async def evicted(asked: Asked) -> None:
        await asked.reply(201, {"kind": "Status", "metadata": {}, "status": "Success", "code": 201})

    asked, _ = await once(
        lambda client: client.create_subresource(
            PODS, "p", "a", "eviction", {"metadata": {"name": "p"}}, decode=dict
        ),
        evicted,
    )
    assert asked.path == "/api/v1/namespaces/a/pods/p/eviction"


async def test_create():
    asked, made = await once(
        lambda client: client.create(PODS, {"metadata": {"name": "p", "namespace": "a"}})
    )
    assert (asked.method, asked.path) == ("POST", "/api/v1/namespaces/a/pods")
    assert asked.query == {"fieldManager": "liqod"}
    assert asked.headers["accept"] == PARTIAL
    assert asked.headers["content-type"] == "application/json"
    assert asked.json() == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "a"},
    }
    assert made.metadata.uid == "uid-p"


async def test_an_answer_that_is_no_object_is_no_success():
    async def recipe(asked: Asked) -> None:
        await asked.reply(200, b'{"kind":"Recipe","apiVersion":"kitchen/v1"}')

    async with peer(recipe) as (_, client):
        with pytest.raises(errors.ProtocolError, match="no object"):
            await client.create(PODS, {"metadata": {"name": "p", "namespace": "a"}})


async def test_create_dry_run_takes_a_struct_and_the_whole_answer():
    class Thing(msgspec.Struct):
        metadata: dict[str, str]

    asked, made = await once(
        lambda client: client.create_full(PODS, Thing({"name": "p"}), "b", dry_run=True)
    )
    assert asked.path == "/api/v1/namespaces/b/pods"
    assert asked.query == {"fieldManager": "liqod", "dryRun": "All"}
    assert asked.headers["accept"] == "application/json"
    assert made["kind"] == "Pod"


async def test_create_a_token():
    asked, _ = await once(
        lambda client: client.create_subresource(
            SERVICE_ACCOUNTS, "default", "a", "token", {"spec": {}}, decode=dict
        )
    )
    assert asked.path == "/api/v1/namespaces/a/serviceaccounts/default/token"


async def test_create_without_a_namespace_is_a_mistake():
    async with peer(ok) as (_, client):
        with pytest.raises(ValueError, match="no namespace"):
            await client.create(PODS, {"metadata": {"name": "p"}})
        await client.create(NAMESPACES, {"metadata": {"name": "n"}})


async def test_update():
    body = json.dumps({"metadata": {"name": "p", "namespace": "a"}}).encode()
    asked, _ = await once(lambda client: client.update(PODS, body, subresource="status"))
    assert (asked.method, asked.path) == ("PUT", "/api/v1/namespaces/a/pods/p/status")
    assert asked.query == {"fieldManager": "liqod"}
    assert asked.body == body


async def test_patch():
    asked, _ = await once(
        lambda client: client.patch(PODS, "p", {"status": None}, "a", subresource="status")
    )
    assert (asked.method, asked.path) == ("PATCH", "/api/v1/namespaces/a/pods/p/status")
    assert asked.headers["content-type"] == "application/merge-patch+json"
    assert asked.headers["accept"] == PARTIAL
    assert asked.body == b'{"status":null}'


async def test_apply():
    asked, _ = await once(
        lambda client: client.apply(
            SERVICES, {"metadata": {"name": "s", "namespace": "a"}}, manager="liqod-x", force=False
        )
    )
    assert (asked.method, asked.path) == ("PATCH", "/api/v1/namespaces/a/services/s")
    assert asked.query == {"fieldManager": "liqod-x", "force": "false"}
    assert asked.headers["content-type"] == "application/apply-patch+yaml"
    assert asked.json()["kind"] == "Service"


async def test_delete():
    asked, gone = await once(
        lambda client: client.delete(PODS, "p", "a", uid="u", grace=0, propagation="Background")
    )
    assert gone is True
    assert (asked.method, asked.path) == ("DELETE", "/api/v1/namespaces/a/pods/p")
    assert asked.json() == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


async def test_delete_of_nothing():
    async def missing(asked: Asked) -> None:
        await asked.refuse(404, "NotFound")

    _, gone = await once(lambda client: client.delete(PODS, "p", "a"), missing)
    assert gone is False


async def test_raw():
    asked, response = await once(
        lambda client: client.raw("GET", "/version", query={"a": ["1 2", "3"]})
    )
    assert asked.path == "/version"
    assert response.status == 200
    assert response.headers["content-length"] == str(len(response.body))


async def test_names_are_quoted():
    asked, _ = await once(lambda client: client.get(PODS, "a/../b?c", "n s"))
    assert asked.path == "/api/v1/namespaces/n%20s/pods/a%2F..%2Fb%3Fc"


REFUSALS = [
    (400, "BadRequest", errors.Invalid),
    (401, "Unauthorized", errors.Unauthorized),
    (403, "Forbidden", errors.Forbidden),
    (404, "NotFound", errors.NotFound),
    (405, "MethodNotAllowed", errors.Invalid),
    (409, "AlreadyExists", errors.AlreadyExists),
    (409, "Conflict", errors.Conflict),
    (410, "Expired", errors.Expired),
    (413, "RequestEntityTooLarge", errors.Invalid),
    (415, "UnsupportedMediaType", errors.Invalid),
    (422, "Invalid", errors.Invalid),
    (429, "TooManyRequests", errors.Overloaded),
    (500, "InternalError", errors.Overloaded),
    (504, "Timeout", errors.Overloaded),
    (302, "", errors.ProtocolError),
    (418, "", errors.ProtocolError),
]


@pytest.mark.parametrize(("code", "reason", "kind"), REFUSALS)
async def test_refusals(autojump_clock, code, reason, kind):
    async def refuse(asked: Asked) -> None:
        await asked.refuse(code, reason, "the server's own words")

    async with peer(refuse) as (_, client):
        with pytest.raises(kind, match="the server's own words") as caught:
            await client.create(PODS, {"metadata": {"name": "p"}}, "a")
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"<html>proxy says no</html>", "proxy says no"),
        (b"", "the server answered 403"),
        (b"\xff\xfe", "\ufffd"),
        (b'{"code": "text"}', "text"),
        (b"[1]", "1"),
        (b"{}", "the server answered 403"),
    ],
)
async def test_a_refusal_that_is_no_status(body, message):
    async def refuse(asked: Asked) -> None:
        await asked.reply(403, body)

    async with peer(refuse) as (_, client):
        with pytest.raises(errors.Forbidden, match=message):
            await client.get(PODS, "p", "a")


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"metadata": 1}'])
async def test_an_answer_that_is_nonsense(body):
    async def nonsense(asked: Asked) -> None:
        await asked.reply(200, body)

    async with peer(nonsense) as (_, client):
        with pytest.raises(errors.ProtocolError):
            await client.get(PODS, "p", "a", decode=Partial)


def paged(count: int, version: int = 5):
    """A server with so many pods; it honours ``limit`` and ``continue``."""

    async def answer(asked: Asked) -> None:
        start, limit = int(asked.query.get("continue", "0")), int(asked.query["limit"])
        items = [pod(f"p{i}") for i in range(start, min(start + limit, count))]
        token = str(start + limit) if start + limit < count else ""
        await asked.reply(200, listing(items, version, token))

    return answer


async def test_list_pages_through_all():
    async with peer(paged(1201)) as (server, client):
        found = await client.list(PODS, Selection("a", labels="x=y", fields="spec.nodeName=n"))
    assert [item["metadata"]["name"] for item in found] == [f"p{i}" for i in range(1201)]
    assert [asked.query.get("continue") for asked in server.asked] == [None, "500", "1000"]
    assert server.asked[0].query["labelSelector"] == "x=y"
    assert server.asked[0].query["fieldSelector"] == "spec.nodeName=n"
    assert found[0]["kind"] == "Pod"
    assert found[0]["apiVersion"] == "v1"
    assert "managedFields" not in found[0]["metadata"]


async def test_list_of_metadata():
    async with peer(paged(1)) as (server, client):
        (found,) = await client.list(PODS, decode=Partial)
    assert server.asked[0].path == "/api/v1/pods"
    assert server.asked[0].headers["accept"] == PARTIAL_LIST
    assert found.kind == "PartialObjectMetadata"


async def test_a_list_that_expires_on_the_way_is_begun_again():
    serve = paged(25)
    times = 1

    async def answer(asked: Asked) -> None:
        nonlocal times
        if asked.query.get("continue") == "20" and times:
            times -= 1
            await asked.refuse(410, "Expired", "continue parameter is too old")
        else:
            await serve(asked)

    async with peer(answer) as (server, client):
        found = await client.list(PODS, limit=10)
        assert len(found) == 25
        assert len(server.asked) == 6
        times = 99
        with pytest.raises(errors.Expired):
            await client.list(PODS, limit=10)


async def test_a_page_too_large_is_asked_for_in_parts():
    big = pod("big", spec={"x": "y" * 900_000})

    async def answer(asked: Asked) -> None:
        start, limit = int(asked.query.get("continue", "0")), int(asked.query["limit"])
        items = [big] * min(limit, 20 - start)
        token = str(start + limit) if start + limit < 20 else ""
        await asked.reply(200, listing(items, 5, token))

    async with peer(answer) as (server, client):
        count = 0
        async for page in client.pages(PODS, limit=64):
            count += len(page.items)
    assert count == 20
    assert [asked.query["limit"] for asked in server.asked] == ["64", "8", "8", "8"]


async def test_an_object_too_large_is_named_and_the_rest_goes_on():
    items = [pod("a"), pod("huge", spec={"x": "y" * MAX_OBJECT}), pod("z")]

    async def answer(asked: Asked) -> None:
        await asked.reply(200, listing(items, 5))

    async with peer(answer) as (_, client):
        (page,) = [page async for page in client.pages(PODS)]
        assert [item.key for item in page.found] == [("a", "a"), ("a", "z")]
        assert page.skipped == (("a", "huge"),)
        with pytest.raises(TooLarge, match="huge"):
            await client.list(PODS)


async def test_listing_lets_others_have_their_turn():
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with peer(paged(500)) as (_, client), trio.open_nursery() as nursery:
        (asked_for,) = [page async for page in client.pages(PODS)]
        nursery.start_soon(count)
        before = turns
        assert len(asked_for.found) == 500
        await client.list(CONFIG_MAPS)
        assert turns - before >= 500 // 64
        nursery.cancel_scope.cancel()
