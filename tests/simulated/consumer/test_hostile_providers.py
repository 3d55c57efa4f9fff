"""Cost of a hostile provider to its consumer: 50 MiB, and a twentieth of a core.

Rome borrows from milan, which turns evil, and from turin, which stays good: whatever milan does,
what is offloaded to turin gets there. Milan's own daemon has ended; its API server answers rome as
the attacker likes, and holds what the attacker writes.
"""

import itertools
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES
from liqod.kube.http.httpserver import HttpRequest, HttpResponse
from liqod.kube.selection import Selection
from liqod.resources import NAMESPACE_MAPS, RESOURCE_SLICES, SHADOW_PODS
from tests.simulated.borrower import eventually
from tests.simulated.costs import Costs, flood, judge, measured, share
from tests.simulated.lender import shadow_pod
from tests.simulated.processes import Site, sites

pytestmark = [pytest.mark.long, pytest.mark.load]

SHOP = "shop-rome"
TENANT = "liqo-tenant-rome"
PROMPT = 60.0
"""Seconds within which what is offloaded has to be at the good peer, on a loaded machine too."""
REWRITES = 4
"""Statuses of a megabyte that are written in a second."""
CRUMBS = b"\n" * 65536
BOOKMARK = b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}\n' * 1000
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
JSON = {"content-type": "application/json"}


def page() -> bytes:
    """A page of a list that has no last one."""
    items = [{"metadata": {"name": f"o{n}", "resourceVersion": "7"}} for n in range(500)]
    meta = {"resourceVersion": "7", "continue": "more"}
    return msgspec.json.encode({"kind": "List", "metadata": meta, "items": items})


async def again(data: bytes) -> AsyncIterator[bytes]:
    """The same for ever."""
    while True:
        yield data
        await trio.lowlevel.checkpoint()


class Evil:
    """Milan's API server: it answers others as it should, and rome as the attacker likes."""

    def __init__(self, milan: Site) -> None:
        self.milan = milan
        self.watches: tuple[bytes, ...] = ()
        self.page = b""
        self._honest = milan.cluster.api.handle
        self._turns = itertools.count()

    async def handle(self, request: HttpRequest) -> HttpResponse:
        user = self.milan.cluster.api.authenticator.identify(request)
        if self.watches and request.method == "GET" and "rome" in user.name:
            if request.one("watch"):
                sent = self.watches[next(self._turns) % len(self.watches)]
                return HttpResponse(200, again(sent), JSON)
            if self.page and request.one("limit"):
                return HttpResponse(200, self.page, JSON)
        return await self._honest(request)

    async def answer(self, *watches: bytes, page: bytes = b"") -> None:
        """From now on, watches and lists are answered like that; those under way end."""
        await self.milan.cluster.stop()
        self.watches, self.page = watches, page
        await self.milan.cluster.start()


async def crumbs(evil: Evil, nursery: trio.Nursery) -> None:
    """Empty lines without end in each second watch, and bookmarks without end in the others."""
    await evil.answer(CRUMBS, BOOKMARK)


async def pages(evil: Evil, nursery: trio.Nursery) -> None:
    """Watches that have expired, and lists without an end instead."""
    await evil.answer(EXPIRED, page=page())


async def foreign(evil: Evil, nursery: trio.Nursery) -> None:
    """Objects in the mapped namespace that look like rome's, and that rome did not make."""
    await evil.answer()
    made = [shadow_pod(f"foreign-{number}") for number in range(1000)]
    for body in made:
        body["metadata"]["annotations"]["liqod.io/source"] = f"pods/{body['metadata']['name']}"
        body["metadata"]["annotations"]["fat"] = "x" * 40_000
    await flood(evil.milan.admin, SHADOW_PODS, made, SHOP)


async def statuses(evil: Evil, nursery: trio.Nursery) -> None:
    """The statuses of slice and map, a megabyte each, changed without end."""
    await evil.answer()
    admin = evil.milan.admin
    live = await admin.get(RESOURCE_SLICES, "milan", TENANT)
    first, *others = live["status"]["conditions"]
    [mapped] = [
        each["metadata"]["name"] for each in await admin.list(NAMESPACE_MAPS, Selection(TENANT))
    ]

    async def write(number: int) -> None:
        told = {**first, "message": f"{number}" + "x" * 1_000_000}
        status: dict[str, Any] = {"conditions": [told, *others]}
        await admin.patch(
            RESOURCE_SLICES, "milan", {"status": status}, TENANT, subresource="status"
        )
        entry = {"remoteNamespace": f"n-{number}", "phase": "Accepted"}
        status = {"currentMapping": {f"n{n}": entry for n in range(12_000)}}
        await admin.patch(NAMESPACE_MAPS, mapped, {"status": status}, TENANT, subresource="status")

    async def go_on() -> None:
        for number in itertools.count():
            await write(number)
            await trio.sleep(1 / REWRITES)

    nursery.start_soon(go_on)


KINDS = {
    "crumbs in watches": crumbs,
    "lists without end": pages,
    "foreign objects": foreign,
    "statuses of a megabyte": statuses,
}


async def delivered(rome: Site, turin: Site, name: str) -> float:
    """Seconds until what is made in an offloaded namespace is at the good peer."""
    began = time.monotonic()
    await rome.admin.create(CONFIG_MAPS, {"metadata": {"name": name}}, "shop")
    await eventually(lambda: turin.admin.find(CONFIG_MAPS, name, SHOP), seconds=PROMPT)
    return time.monotonic() - began


async def test_a_hostile_provider_takes_little_from_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with sites(tmp_path, "rome", "milan", "turin") as (rome, milan, turin):
        async with trio.open_nursery() as nursery:
            for site in (rome, milan, turin):
                nursery.start_soon(site.start)
        await rome.admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
        for provider in (milan, turin):
            user = await provider.user_for("rome")
            await rome.liqod("peer", "--remote-kubeconfig", str(user))
        await rome.liqod("offload", "namespace", "shop")
        for provider in (milan, turin):
            await eventually(partial(provider.admin.find, NAMESPACES, SHOP))
        await delivered(rome, turin, "before")
        await eventually(lambda: milan.admin.find(CONFIG_MAPS, "before", SHOP))
        await milan.stop()  # from now on it is the attacker who writes
        evil = Evil(milan)
        monkeypatch.setattr(milan.cluster.api, "handle", evil.handle)
        quiet = await share(rome)
        found: Costs = {}
        took = []

        async def attack(name: str, nursery: trio.Nursery) -> None:
            await KINDS[name](evil, nursery)
            took.append(await delivered(rome, turin, name.replace(" ", "-")))

        for name in KINDS:
            found[name] = await measured(rome, quiet, partial(attack, name))
    print("to the good peer:", ", ".join(f"{seconds:.1f} s" for seconds in took))
    judge(quiet, found)
