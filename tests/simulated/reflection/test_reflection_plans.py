"""Requests of a plan beyond one object there: needs, several objects, objects made here."""

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, PODS, SECRETS, SERVICE_ACCOUNTS, Kind
from liqod.errors import Conflict
from liqod.kube.cache.store import IndexedStore
from liqod.plugins import loader
from liqod.plugins.contracts import (
    NOTHING,
    Json,
    Plan,
    Reads,
    Reflector,
    RemoteKind,
    RemoteObject,
    ServiceAccountToken,
    View,
    Watch,
)
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.loader import OWN, Plugins, PluginSource
from liqod.reflection import localobjects
from liqod.reflection.worker import BORNE
from tests.simulated.borrower import eventually
from tests.simulated.lendingpods import lending
from tests.simulated.reflecting import SHOP, THERE, pair


def remote_object(kind: Kind, name: str, **content: Any) -> Json:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name},
        **content,
    }


def with_a_token(account: Json, view: View) -> Plan:
    """A Secret with a token of the account, bound to the pod that an annotation names."""
    meta = account["metadata"]
    pod = view.get(PODS, (meta.get("annotations") or {}).get("pod", ""))
    if pod is None:
        return NOTHING
    need = ServiceAccountToken(
        account=meta["name"], pod=pod["metadata"]["name"], pod_uid=pod["metadata"]["uid"]
    )
    token = view.fulfilled(need)
    if token is None:
        return Plan(needs=(need,))
    data = {"token": token.text, "expires": token.expires}
    return Plan(remote=(remote_object(SECRETS, f"{meta['name']}-token", stringData=data),))


TOKENS = Reflector(
    name="tokens",
    kind=SERVICE_ACCOUNTS,
    outgoing=with_a_token,
    remote=(RemoteKind(kind=SECRETS),),
    reads=(Reads(PODS, everywhere=True),),
)


def two_outputs(config_map: Json, view: View) -> Plan:
    """The lines of a ConfigMap, each in one of its own, and a Secret that counts them."""
    lines = (config_map.get("data") or {}).get("lines", "").split()
    name = config_map["metadata"]["name"]
    maps = [remote_object(CONFIG_MAPS, f"{name}-{line}", data={"line": line}) for line in lines]
    return Plan(
        remote=(*maps, remote_object(SECRETS, f"{name}-count", stringData={"n": str(len(lines))}))
    )


def copied_back(config_map: Json, remote: tuple[Json, ...], view: View) -> Plan:
    """A Secret here that lists what is there."""
    names = " ".join(each["metadata"]["name"] for each in remote)
    secret = remote_object(
        SECRETS, f"{config_map['metadata']['name']}-there", stringData={"names": names}
    )
    return Plan(local=(secret,) if remote else ())


LINES = Reflector(
    name="lines",
    kind=CONFIG_MAPS,
    outgoing=two_outputs,
    incoming=copied_back,
    remote=(RemoteKind(kind=CONFIG_MAPS, watch=Watch.FULL), RemoteKind(kind=SECRETS)),
    local=(SECRETS,),
    selector="lines=yes",
)


def reads_it_whole(secret: Json, view: View) -> Plan:
    """Reads the remote Secret whole once: it is watched as metadata only."""
    name = secret["metadata"]["name"]
    made = remote_object(SECRETS, name, data=secret.get("data") or {})
    for found in view.remote(SECRETS):
        need = RemoteObject(kind=SECRETS, name=name, version=found["metadata"]["resourceVersion"])
        whole = view.fulfilled(need)
        if whole is None:
            return Plan(needs=(need,))
        extra = (whole.get("data") or {}).get("extra")
        if extra is not None:
            made["data"] = {**made["data"], "extra": extra}
    return Plan(remote=(made,))


WHOLE = Reflector(
    name="secrets", kind=SECRETS, outgoing=reads_it_whole, remote=(RemoteKind(kind=SECRETS),)
)


def only(*reflectors: Reflector, package: str = "ours") -> Plugins:
    """These reflectors alone; what those of a package declare is bounded, unless it is liqod."""
    provided = SimpleNamespace(liqod_reflectors=hookimpl(lambda: list(reflectors)))
    return loader.load(sources=[PluginSource("ours", package, "1", lambda: provided)])


async def test_a_need_is_fulfilled_and_shared():
    built_in = loader.load(sources=loader.built_in()).reflectors
    async with lending(plugins=only(TOKENS, *built_in, package=OWN)) as (both, _):
        await both.here.create(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}}, SHOP)
        await both.pod("web", spec={"serviceAccountName": "robot"})
        note = {"metadata": {"annotations": {"pod": "web"}}}
        await both.here.patch(SERVICE_ACCOUNTS, "robot", note, SHOP)
        await both.comes(SECRETS, "robot-token")
        asked = both.requests().count(("create", "serviceaccounts/token"))
        more = {"metadata": {"labels": {"more": "yes"}}}
        await both.here.patch(SERVICE_ACCOUNTS, "robot", more, SHOP)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "later"}}, SHOP)
        await both.comes(CONFIG_MAPS, "later")
        assert both.requests().count(("create", "serviceaccounts/token")) == asked == 1


async def test_several_objects_follow_one_and_go_with_it():
    async with pair(plugins=only(LINES)) as both, trio.open_nursery() as nursery:
        await both.start(nursery)
        text = {"metadata": {"name": "text", "labels": {"lines": "yes"}}, "data": {"lines": "a b"}}
        await both.here.create(CONFIG_MAPS, text, SHOP)
        await both.here.create(CONFIG_MAPS, {"metadata": {"name": "other"}}, SHOP)
        for kind, name in (
            (CONFIG_MAPS, "text-a"),
            (CONFIG_MAPS, "text-b"),
            (SECRETS, "text-count"),
        ):
            await both.comes(kind, name)
        await both.comes(SECRETS, "text-there", client=both.here, namespace=SHOP)
        await both.here.patch(CONFIG_MAPS, "text", {"data": {"lines": "b c"}}, SHOP)
        await both.goes(CONFIG_MAPS, "text-a")
        await both.comes(CONFIG_MAPS, "text-c")
        await both.here.delete(CONFIG_MAPS, "text", SHOP)
        for kind, name in (
            (CONFIG_MAPS, "text-b"),
            (CONFIG_MAPS, "text-c"),
            (SECRETS, "text-count"),
        ):
            await both.goes(kind, name)
        await both.goes(SECRETS, "text-there", client=both.here, namespace=SHOP)
        assert await both.there.find(CONFIG_MAPS, "other", THERE) is None
        nursery.cancel_scope.cancel()


async def test_what_was_made_here_goes_when_it_is_not_wanted_any_more():
    async with pair(plugins=only(LINES)) as both, trio.open_nursery() as nursery:
        await both.start(nursery)
        text = {"metadata": {"name": "text", "labels": {"lines": "yes"}}, "data": {"lines": "a"}}
        await both.here.create(CONFIG_MAPS, text, SHOP)
        await both.comes(SECRETS, "text-there", client=both.here, namespace=SHOP)
        await both.here.patch(CONFIG_MAPS, "text", {"data": {"lines": ""}}, SHOP)
        await both.goes(SECRETS, "text-there", client=both.here, namespace=SHOP)
        nursery.cancel_scope.cancel()


async def test_an_object_watched_as_metadata_is_read_whole_when_asked_for():
    async with pair(plugins=only(WHOLE)) as both, trio.open_nursery() as nursery:
        await both.start(nursery)
        await both.here.create(SECRETS, {"metadata": {"name": "cred"}, "data": {"a": "MQ=="}}, SHOP)
        await both.comes(SECRETS, "cred")
        await both.there.patch(SECRETS, "cred", {"data": {"extra": "Mg=="}}, THERE)
        # It is taken over, so it stays.
        await both.here.patch(SECRETS, "cred", {"data": {"a": "Mw=="}}, SHOP)
        wanted = {"a": "Mw==", "extra": "Mg=="}
        await both.comes(SECRETS, "cred", lambda found: found["data"] == wanted)
        nursery.cancel_scope.cancel()


FAULT = "the reflector secrets raised ZeroDivisionError: a fault of the plugin's"


def raises_for_one(secret: Json, view: View) -> Plan:
    if secret["metadata"]["name"] == "bad" and not secret["metadata"].get("labels"):
        raise ZeroDivisionError("a fault of the plugin's")
    return Plan(remote=(remote_object(SECRETS, secret["metadata"]["name"]),))


async def test_a_reflector_that_raises_fails_for_that_object_alone():
    faulty = Reflector(
        name="secrets", kind=SECRETS, outgoing=raises_for_one, remote=(RemoteKind(kind=SECRETS),)
    )
    async with pair(plugins=only(faulty)) as both, trio.open_nursery() as nursery:
        engine = await both.start(nursery)
        for name in ("bad", "good"):
            await both.here.create(SECRETS, {"metadata": {"name": name}}, SHOP)
        await both.comes(SECRETS, "good")

        async def named() -> bool:
            return any(
                event.payload.facts().get("failed") == FAULT for event in both.context.hub.history
            )

        await eventually(named)

        async def shown() -> bool:
            troubles = both.plugins.calls.troubles()
            return troubles.get("the reflector secrets", "").endswith(FAULT)

        await eventually(shown)

        async def rests() -> bool:
            return engine.workers["secrets"].queue.failures((SHOP, "bad")) >= BORNE

        await eventually(rests, seconds=30)
        # What goes by another object now is tried at once, and rests no more when it is well.
        await both.here.patch(SECRETS, "bad", {"metadata": {"labels": {"mended": "yes"}}}, SHOP)
        await both.comes(SECRETS, "bad")
        assert not both.plugins.calls.troubles()
        nursery.cancel_scope.cancel()


async def test_what_was_made_here_a_moment_ago_is_not_made_again():
    """Nor taken for somebody else's, where the watch has not shown it yet."""
    async with pair() as both:
        source = await both.here.create_full(CONFIG_MAPS, {"metadata": {"name": "text"}}, SHOP)
        wanted = {"metadata": {"name": "made", "namespace": SHOP}, "stringData": {"a": "1"}}
        body = localobjects.owned(wanted, CONFIG_MAPS, source, "lines", "milan")
        unaware, lately = IndexedStore(), localobjects.Lately()
        requests = both.here.stats.answers
        before = sum(requests["create", "secrets", code] for code in (201, 409))
        for _ in range(3):
            await localobjects.make(both.here, SECRETS, body, source, "lines", unaware, lately)
        assert sum(requests["create", "secrets", code] for code in (201, 409)) == before + 1
        # What has gone since is made again; who does not remember takes over what is there.
        await both.here.delete(SECRETS, "made", SHOP)
        for memory in (lately, localobjects.Lately()):
            await localobjects.make(both.here, SECRETS, body, source, "lines", unaware, memory)
            assert await both.here.find(SECRETS, "made", SHOP) is not None
        other = await both.here.create_full(CONFIG_MAPS, {"metadata": {"name": "other"}}, SHOP)
        theirs = localobjects.owned(wanted, CONFIG_MAPS, other, "lines", "milan")
        with pytest.raises(Conflict):
            await localobjects.make(both.here, SECRETS, theirs, other, "lines", unaware, lately)
