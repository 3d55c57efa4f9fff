"""Tokens of pods at a peer, between two embedded clusters: asked, renewed, ended with the pod."""

import base64
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import EVENTS, NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from liqod.apimachinery.meta import Partial
from liqod.kube.reviews import user_of
from liqod.kube.selection import Selection
from liqod.model.objects import homeapi
from liqod.plugins.contracts import ServiceAccountToken
from liqod.plugins.reflectors import tokens
from liqod.reflection.timings import ReflectionTimings
from liqod.resources import SHADOW_PODS
from tests.simulated.borrower import eventually
from tests.simulated.identity.test_secrets import Seen
from tests.simulated.lendingpods import lending
from tests.simulated.reflecting import SHOP, THERE, Pair, pair
from tests.testbed.api import BUSY

BY_NAME = """
[api_server]
for_pods = "api.rome.example"
[peer_defaults]
pod_network = "routed"
pod_cidrs = ["10.0.0.0/8"]
api_server = "home"
"""
KEY = "token-3c469e"
ASKED = ("create", "serviceaccounts/token")
SHORT = 600


def volumes(seconds: int) -> list[dict[str, Any]]:
    """One with a token that is asked for so long."""
    source = {"serviceAccountToken": {"path": "token", "expirationSeconds": seconds}}
    return [{"name": "token", "projected": {"sources": [source]}}]


@asynccontextmanager
async def joined(text: str = BY_NAME, **engine: Any) -> AsyncIterator[Pair]:
    async with lending(text=text, engine=engine) as (both, _):
        await prepare(both)
        yield both


async def prepare(both: Pair) -> None:
    """An account, and the Node, without which pods do not last."""
    await both.here.create(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}}, SHOP)
    await both.here.create(NODES, {"metadata": {"name": "milan"}})


async def robot(both: Pair, name: str, seconds: int = SHORT, **more: Any) -> dict[str, Any]:
    """A pod of rome at milan that has a token."""
    stays = [{"operator": "Exists"}]
    account = {"serviceAccountName": "robot", "volumes": volumes(seconds), "tolerations": stays}
    spec = {**account, "automountServiceAccountToken": False, **more.pop("spec", {})}
    return await both.pod(name, spec=spec, **more)


def token_in(secret: dict[str, Any]) -> str:
    return base64.b64decode(secret["data"][KEY]).decode()


def claims(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    found: dict[str, Any] = msgspec.json.decode(
        base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))
    )
    return found


async def is_good(both: Pair, token: str) -> bool:
    """True if rome's API server knows the token."""
    return await user_of(both.here, token) is not None


async def test_a_pod_there_has_a_token_of_its_own_that_ends_with_it():
    async with joined() as both:
        local = await robot(both, "web", 3607)
        secret = await both.comes(SECRETS, "web-token")
        token = token_in(secret)
        found = claims(token)
        assert found["kubernetes.io"]["pod"] == {"name": "web", "uid": local["metadata"]["uid"]}
        assert found["sub"] == f"system:serviceaccount:{SHOP}:robot"
        # Not what the pod asks for, which an API server makes a year of.
        assert found["exp"] - found["iat"] == 3600
        remote = await both.comes(PODS, "web")
        assert homeapi.is_mounted(remote, "web-token")
        assert remote["spec"].get("serviceAccountName", "default") == "default"
        assert await is_good(both, token)
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(SECRETS, "web-token")
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        assert not await is_good(both, token)


async def test_none_goes_where_none_is_let_or_the_pod_is_at_home():
    quiet = (
        '[peer_defaults]\npod_network = "routed"\n'
        'pod_cidrs = ["10.0.0.0/8"]\napi_server = "asked"\n'
    )
    async with joined(quiet + '[api_server]\nfor_pods = "api.rome.example"\n') as both:
        await robot(both, "quiet")
        await robot(both, "home", node="", spec={"schedulerName": "nobody"})
        asks = {"annotations": {labels.API_SERVER_SUPPORT: "home"}}
        await robot(both, "asks", metadata=asks)
        await robot(both, "at-home-too", metadata=asks, node="", spec={"schedulerName": "nobody"})
        await both.comes(SECRETS, "asks-token")
        await both.comes(PODS, "quiet")
        names = {
            each.metadata.name
            for each in await both.there.list(SECRETS, Selection(THERE), decode=Partial)
        }
        assert names == {"asks-token"}
        requests = both.context.client.stats.requests
        assert requests[ASKED] == 1


@pytest.mark.long
async def test_they_are_renewed_in_time_and_not_by_a_daemon_that_only_begins_again():
    async with joined() as both:
        local = await robot(both, "web")
        first = token_in(await both.comes(SECRETS, "web-token"))
        shadow = await both.comes(SHADOW_PODS, "web")
        pod = await both.comes(PODS, "web")
        asked = both.context.client.stats.requests
        assert asked[ASKED] == 1
        both.stop()
        async with trio.open_nursery() as nursery:
            await both.start(nursery)
            await trio.sleep(SHORT - homeapi.reserve(local) - 20)
            assert asked[ASKED] == 1
            assert token_in(await both.comes(SECRETS, "web-token")) == first
            await trio.sleep(40)
            second = token_in(await both.comes(SECRETS, "web-token"))
            assert second != first
            assert asked[ASKED] == 2
            assert await is_good(both, second)
            for kind, before in ((SHADOW_PODS, shadow), (PODS, pod)):
                assert (await both.comes(kind, "web"))["metadata"]["uid"] == before["metadata"][
                    "uid"
                ]
            # The first ends by itself, and there is always one that is good.
            await trio.sleep(SHORT)
            assert not await is_good(both, first)
            assert await is_good(both, token_in(await both.comes(SECRETS, "web-token")))
            nursery.cancel_scope.cancel()


@pytest.mark.long
async def test_a_renewal_that_is_late_as_the_peer_is_away_is_said_on_the_pod():
    async with joined() as both:
        local = await robot(both, "web")
        first = token_in(await both.comes(SECRETS, "web-token"))

        async def told() -> bool:
            found = await both.here.list(EVENTS, Selection(SHOP))
            return any(each["reason"] == tokens.LATE for each in found)

        both.link.set(False, "no answer")
        await trio.sleep(SHORT - homeapi.reserve(local) + 20)
        assert not await told()
        await trio.sleep(homeapi.reserve(local) / 2)
        assert await told()
        both.link.set(True, "it answers")
        await both.comes(SECRETS, "web-token", lambda secret: token_in(secret) != first)


@pytest.mark.long
async def test_what_liqo_gave_a_pod_is_renewed_from_then_on():
    """Its Secret names the pod, and no reflector."""
    async with joined() as both:
        await robot(both, "web")
        first = token_in(await both.comes(SECRETS, "web-token"))
        await both.comes(PODS, "web")
        both.stop()
        ours = (labels.SOURCE, labels.APPLIED_HASH, labels.APPLIED_KEYS)
        notes = {**dict.fromkeys(ours), labels.SERVICE_ACCOUNT_EXPIRATION: "2026-01-01T00:00:00Z"}
        await both.there.patch(SECRETS, "web-token", {"metadata": {"annotations": notes}}, THERE)
        async with trio.open_nursery() as nursery:
            await both.start(nursery)
            found = await both.comes(SECRETS, "web-token", lambda one: token_in(one) != first)
            assert found["metadata"]["annotations"][labels.SOURCE] == "tokens/web"
            nursery.cancel_scope.cancel()


async def test_without_the_reflector_no_pod_waits_for_its_tokens():
    async with joined(BY_NAME + '[reflection]\ndisabled = ["tokens"]\n') as both:
        await robot(both, "web")
        remote = await both.comes(PODS, "web")
        assert not homeapi.is_mounted(remote, "web-token")


async def test_a_pods_status_comes_home_though_no_token_is_given():
    async with joined() as both:
        await robot(both, "web")
        await both.comes(PODS, "web")
        await both.here.delete(SERVICE_ACCOUNTS, "robot", SHOP)
        await robot(both, "late") if False else None

        async def runs() -> bool:
            found = await both.here.get(PODS, "web", SHOP)
            return bool(found["status"].get("phase") == "Running")

        await eventually(runs)


async def test_of_a_pod_that_has_ended_nothing_is_left_there():
    async with joined() as both:
        await robot(both, "job", spec={"restartPolicy": "Never"})
        await both.comes(SECRETS, "job-token")
        await both.comes(PODS, "job")
        done = {"status": {"phase": "Succeeded"}}
        await both.here.patch(PODS, "job", done, SHOP, subresource="status")
        await both.goes(SECRETS, "job-token")


async def test_a_token_is_nowhere_but_in_its_secret(caplog):
    """Neither in logs nor in the inspector's output, nor in any object but the Secret."""
    caplog.set_level(logging.DEBUG)
    async with joined() as both:
        seen = Seen()
        await robot(both, "web")
        token = token_in(await both.comes(SECRETS, "web-token"))
        await both.comes(PODS, "web")
        await both.here.delete(SERVICE_ACCOUNTS, "robot", SHOP)
        for cluster in (both.rome, both.milan):
            for resource in cluster.registry.storage.names():
                for item in cluster.registry.storage.of(resource).items():
                    if resource != "secrets":
                        seen.add(resource, item.raw.decode())
        seen.add("history", repr(list(both.context.hub.history)))
        seen.add("log", caplog.text)
        assert seen.texts["history"]
        assert "pods" in seen.texts
        signature = token.rpartition(".")[2]
        assert seen.holds({token, signature, token.split(".")[1]}) == []
        there = await both.there.list(SECRETS, Selection(THERE))
        assert [each["metadata"]["name"] for each in there] == ["web-token"]
        assert signature not in str(there[0]["metadata"])


AT_ONCE = 500
"""Pods whose tokens are due within one minute."""
BEGINS = 40.0
"""Seconds before the first is due at which a daemon begins: a busy machine needs some for that."""


@pytest.mark.long
@pytest.mark.timeout(1800)  # a minute of a processor, and of that a busy machine gives a tenth
@pytest.mark.load
async def test_500_renewals_in_a_minute_keep_no_pod_waiting():
    assert homeapi.SPREAD * SHORT == 60
    async with pair(text=BY_NAME) as both, trio.open_nursery() as nursery:
        await prepare(both)
        await both.start(nursery)
        asked = both.context.client.stats.requests
        began = time.time()
        for number in range(AT_ONCE):
            await robot(both, f"web-{number}")
        await eventually(lambda: counts(asked, AT_ONCE), seconds=120)
        issued = time.time()
        # Nobody need look on until the first is due; a daemon that begins then asks for none more.
        both.stop()
        await trio.sleep(SHORT * 0.8 - 60 - BEGINS - (time.time() - began))
        engine = await both.start(nursery)
        await trio.sleep(5)
        assert asked[ASKED] == AT_ONCE
        busy, slowest = time.process_time(), 0.0
        number = 0
        while asked[ASKED] < 2 * AT_ONCE + number:
            late = time.time() - issued - SHORT * 0.8
            assert late < BUSY * 30, f"{asked[ASKED] - AT_ONCE} renewals, the last due {late:.0f} s"
            number += 1
            at = time.time()
            await robot(both, f"new-{number}")
            await both.comes(SHADOW_PODS, f"new-{number}")
            await both.comes(SECRETS, f"new-{number}-token")
            slowest = max(slowest, time.time() - at)
            await trio.sleep(10)
        used, kept = (
            time.process_time() - busy,
            sum(isinstance(need, ServiceAccountToken) for need in engine.context.needs),
        )
        print(
            f"{AT_ONCE} renewals within {10 * number} s:"
            f" {1000 * used / AT_ONCE:.1f} ms of processor each, with both API servers;"
            f" a new pod and its token {slowest:.2f} s; {kept} tokens in memory",
        )
        assert slowest < BUSY * 5
        nursery.cancel_scope.cancel()


async def counts(asked: Counter[tuple[str, str]], number: int) -> bool:
    return asked[ASKED] == number


async def test_a_secret_that_has_the_name_of_a_pods_own_is_named_where_it_is_in_the_way() -> None:
    soon = ReflectionTimings(free_again=0.2)
    async with joined(timings=soon) as both:
        await both.here.create(SECRETS, {"metadata": {"name": "web-token"}}, SHOP)
        await both.comes(SECRETS, "web-token")
        await robot(both, "web")

        async def told() -> bool:
            said = await both.here.list(EVENTS, Selection(SHOP))
            return any(
                each["involvedObject"]["name"] == "web"
                and "it was made from the Secret web-token here" in each["message"]
                for each in said
            )

        await eventually(told)
        await both.here.delete(SECRETS, "web-token", SHOP)
        await both.comes(SECRETS, "web-token", lambda one: KEY in (one.get("data") or {}))
