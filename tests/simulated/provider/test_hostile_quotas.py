"""A consumer that makes objects in many namespaces at once: its bounds are for all of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio

from liqod.apimachinery.kinds import RESOURCE_QUOTAS
from liqod.errors import NotFound
from liqod.kube.selection import Selection
from liqod.provider.namespaces import mapping
from liqod.provider.namespaces.namespacemaps import NamespaceMaps
from liqod.provider.slices.sharedquotas import QuotaBalancer
from liqod.provider.timings import ORDINARY, ProviderTimings
from liqod.resources import NAMESPACE_MAPS, TENANTS
from tests.simulated.borrower import eventually
from tests.simulated.lender import CONSUMER, TENANT, Lender, installed_lender

Json = dict[str, Any]
PORTS = "services.nodeports"
REPLICA = {"liqo.io/replicated": "true", "liqo.io/originID": CONSUMER}
NAMED = Selection(fields=f"metadata.name={mapping.QUOTA_NAME}")


class Guests:
    """Rome's objects, and the quota controller and admission that a real cluster has.

    Attributes:
        used: node ports by namespace.
        greedy: namespaces in which as many are made as are admitted.
        most: the most that there were in all.
        late: seconds until a lowered quota is taken over.
    """

    def __init__(self, milan: Lender) -> None:
        self.milan = milan
        self.used: dict[str, int] = {}
        self.greedy: set[str] = set()
        self.most = 0
        self.late = 0.0
        self._lowered: dict[str, float] = {}

    async def map(self, *names: str) -> None:
        wanted = {name: f"{name}-{CONSUMER}" for name in names}
        spec = {"desiredMapping": wanted}
        admin = self.milan.admin
        if await admin.find(NAMESPACE_MAPS, "milan", TENANT) is None:
            made = {"metadata": {"name": "milan", "labels": REPLICA}, "spec": spec}
            await admin.create(NAMESPACE_MAPS, made, TENANT)
            return
        live = await admin.get(NAMESPACE_MAPS, "milan", TENANT)
        gone = dict.fromkeys(live["spec"]["desiredMapping"])
        patch = {"spec": {"desiredMapping": {**gone, **wanted}}}
        await admin.patch(NAMESPACE_MAPS, "milan", patch, TENANT)

    async def quotas(self) -> dict[str, Json]:
        found = await self.milan.admin.list(RESOURCE_QUOTAS, NAMED)
        return {each["metadata"]["namespace"]: each for each in found}

    async def run(self) -> None:
        """Admit what fits into what was admitted before, then take over what quotas say."""
        while True:
            quotas = await self.quotas()
            self.used = {name: n for name, n in self.used.items() if name in quotas}
            for name, each in quotas.items():
                status = each.get("status", {})
                admitted = int(status.get("hard", {}).get(PORTS, 0))
                used = self.used.setdefault(name, 0)
                if name in self.greedy:
                    used = self.used[name] = max(used, admitted)
                self.most = max(self.most, sum(self.used.values()))
                hard = each["spec"]["hard"]
                if int(hard[PORTS]) >= admitted:
                    self._lowered.pop(name, None)
                elif trio.current_time() < self._lowered.setdefault(
                    name, trio.current_time() + self.late
                ):
                    hard = status["hard"]
                now = {"hard": hard, "used": {PORTS: str(used)}}
                if status != now:
                    with suppress(NotFound):
                        await self.milan.admin.patch(
                            RESOURCE_QUOTAS,
                            mapping.QUOTA_NAME,
                            {"status": now},
                            name,
                            subresource="status",
                        )
            await trio.sleep(0.05)

    async def until_used(self, number: int) -> None:
        async def there() -> bool:
            return sum(self.used.values()) == number

        await eventually(there, seconds=20)

    async def until_mapped(self, number: int) -> None:
        async def there() -> bool:
            return len(await self.quotas()) == number

        await eventually(there, seconds=20)


@asynccontextmanager
async def lending() -> AsyncIterator[tuple[Guests, trio.Nursery]]:
    async with installed_lender() as (milan, nursery):
        spec = {"clusterID": CONSUMER, "authzPolicy": "TolerateNoHandshake"}
        await milan.admin.create(TENANTS, {"metadata": {"name": CONSUMER}, "spec": spec}, TENANT)
        status = {"status": {"tenantNamespace": TENANT}}
        await milan.admin.patch(TENANTS, CONSUMER, status, TENANT, subresource="status")
        guests = Guests(milan)
        nursery.start_soon(guests.run)
        yield guests, nursery


async def lend(guests: Guests, nursery: trio.Nursery, timings: ProviderTimings = ORDINARY) -> None:
    """As the daemon does, with its own rights."""
    maps = NamespaceMaps(guests.milan.peer, guests.milan.guest_policies)
    await nursery.start(QuotaBalancer(guests.milan.peer, maps.shared, timings).run)
    await nursery.start(maps.run)


@pytest.mark.long
async def test_many_namespaces_at_once_have_no_more_than_one():
    async with lending() as (guests, nursery):
        await lend(guests, nursery, ProviderTimings(turn=0.5))
        guests.late = 1.0
        names = [f"n{number}" for number in range(30)]
        await guests.map(*names)
        await guests.until_mapped(30)

        async def moved() -> bool:
            """Some have got what another one had, and may still be admitted there."""
            hard = [int(each["spec"]["hard"][PORTS]) for each in (await guests.quotas()).values()]
            return sum(each > 0 for each in hard) > 1

        await eventually(moved, seconds=20)
        guests.greedy = {f"{name}-{CONSUMER}" for name in names}
        await guests.until_used(20)
        await trio.sleep(1)
        assert guests.most == 20


async def test_a_busy_namespace_gets_all_and_one_that_goes_frees_its_share():
    async with lending() as (guests, nursery):
        await lend(guests, nursery)
        await guests.map("a", "b", "c")
        await guests.until_mapped(3)
        guests.greedy = {f"a-{CONSUMER}"}

        async def nearly_all() -> bool:
            return guests.used.get(f"a-{CONSUMER}", 0) >= 18

        await eventually(nearly_all, seconds=20)
        guests.greedy = {f"b-{CONSUMER}"}
        await guests.map("b", "c")
        guests.most = 0

        async def inherited() -> bool:
            return guests.used.get(f"b-{CONSUMER}", 0) >= 18

        await eventually(inherited, seconds=20)
        assert guests.most <= 20


async def test_quotas_of_an_older_version_are_taken_over():
    async with lending() as (guests, nursery):
        maps = NamespaceMaps(guests.milan.peer, guests.milan.guest_policies)
        with trio.CancelScope() as before:
            async with trio.open_nursery() as older:
                await older.start(maps.run)
                await guests.map("a", "b", "c")
                await guests.until_mapped(3)
                before.cancel()
        for name in await guests.quotas():
            patch = {"spec": {"hard": {PORTS: "20"}}}
            await guests.milan.admin.patch(RESOURCE_QUOTAS, mapping.QUOTA_NAME, patch, name)
        guests.used = {f"a-{CONSUMER}": 12}
        await lend(guests, nursery)

        async def divided() -> bool:
            hard = {n: int(q["spec"]["hard"][PORTS]) for n, q in (await guests.quotas()).items()}
            return sum(hard.values()) == 20 and hard[f"a-{CONSUMER}"] >= 12

        await eventually(divided, seconds=20)


@pytest.mark.parametrize("written", ["1000", "0"])
async def test_a_share_that_somebody_else_writes_is_put_right(written):
    async with lending() as (guests, nursery):
        await lend(guests, nursery)
        await guests.map("a", "b")
        await guests.until_mapped(2)

        async def divided() -> bool:
            hard = [int(each["spec"]["hard"][PORTS]) for each in (await guests.quotas()).values()]
            return sum(hard) == 20 and min(hard) >= 5

        await eventually(divided, seconds=20)
        patch = {"spec": {"hard": {PORTS: written}}}
        await guests.milan.admin.patch(RESOURCE_QUOTAS, mapping.QUOTA_NAME, patch, f"a-{CONSUMER}")
        await eventually(divided, seconds=20)


async def test_the_next_daemon_gives_what_a_killed_one_had_only_taken():
    async with lending() as (guests, nursery):
        with trio.CancelScope() as killed:
            async with trio.open_nursery() as first:
                await lend(guests, first)
                await guests.map("a", "b", "c")
                await guests.until_mapped(3)
                killed.cancel()
        # As after the first of its two writes.
        for name in await guests.quotas():
            patch = {"spec": {"hard": {PORTS: "2"}}}
            await guests.milan.admin.patch(RESOURCE_QUOTAS, mapping.QUOTA_NAME, patch, name)
        await lend(guests, nursery)

        async def given() -> bool:
            hard = [int(each["spec"]["hard"][PORTS]) for each in (await guests.quotas()).values()]
            assert sum(hard) <= 20
            return sum(hard) == 20

        await eventually(given, seconds=20)
