"""Events rarer than an outage: another leader, weeks that pass, parts that are taken away."""

from dataclasses import dataclass

import trio

from liqod import install
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CUSTOM_RESOURCES, MUTATING_WEBHOOKS, Kind
from liqod.kube.definitions import name_of
from liqod.model import ids
from liqod.model.objects import webhook
from liqod.procedures.tenantstate import find_tenant, set_condition
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    QUOTAS,
    RENEWS,
    RESOURCE_SLICES,
    SHADOW_ENDPOINT_SLICES,
    SHADOW_PODS,
    TENANTS,
    VIRTUAL_NODES,
)
from tests.stateful.audit import ENDED, Broken, seen
from tests.stateful.cures import RENEWAL, define, lift, quiet
from tests.stateful.steps import Step
from tests.stateful.world import CONSUMER, PROVIDERS, THERE, World

DAY = 86400.0
TAKEOVER = 15.0
"""Seconds in which a standby leads after its leader was killed."""
REST = 30.0
ABSENCE = 60.0
"""Seconds for which a definition is away."""
DEFINED: dict[str, Kind] = {
    kind.plural: kind
    for kind in (
        FOREIGN_CLUSTERS,
        IDENTITIES,
        NAMESPACE_MAPS,
        NAMESPACE_OFFLOADINGS,
        QUOTAS,
        RENEWS,
        RESOURCE_SLICES,
        SHADOW_ENDPOINT_SLICES,
        SHADOW_PODS,
        TENANTS,
        VIRTUAL_NODES,
    )
}
HARMLESS = (
    *((CONSUMER, each) for each in ("foreignclusters", "namespacemaps", "renews", "virtualnodes")),
    *(
        (provider, each)
        for provider in PROVIDERS
        for each in (
            "foreignclusters",
            "namespacemaps",
            "quotas",
            "renews",
            "resourceslices",
            "shadowendpointslices",
        )
    ),
)
"""Where definitions may go without a pod's noticing: the daemons make all objects of the kind."""


@dataclass(frozen=True)
class Pair(Step):
    """From now on two daemons run beside a cluster: one leads, the other waits."""

    at: str

    async def act(self, world: World) -> None:
        await world[self.at].pair(world.nursery)


@dataclass(frozen=True)
class Isolate(Step):
    """The leader no longer reaches its own API server; another daemon of the cluster would."""

    at: str

    async def act(self, world: World) -> None:
        world[self.at].isolate()


@dataclass(frozen=True)
class FailOver(Step):
    """While all is quiet the leader of two dies, or is cut off: the other leads, and rests."""

    at: str
    dies: bool

    async def do(self, world: World) -> None:
        site = world[self.at]
        await site.pair(world.nursery)
        await quiet(world)
        known, first = len(world.audit.writes), site.leader
        if first is None:
            raise Broken(f"nobody leads {self.at}")
        if self.dies:
            site.kill_one()
        else:
            site.isolate()
        if not await world.until(lambda: site.leader not in (None, first), TAKEOVER):
            raise Broken(f"nobody leads {self.at} {TAKEOVER:.0f} s after its leader's end")
        await trio.sleep(REST)
        written = world.audit.by_daemons(known)
        if written:
            raise Broken(f"the leader's end gave something to do: {written[0]}")
        lift(world)
        await site.start(world.nursery)


@dataclass(frozen=True)
class Age(Step):
    """Days pass; a daemon that sleeps meanwhile (a host that is suspended) notices afterwards."""

    days: float
    asleep: bool

    async def act(self, world: World) -> None:
        if not self.asleep:
            for site in world.sites.values():
                site.kill()
        world.wall.start += self.days * DAY
        world.aged = True
        await world.start()
        await trio.sleep(RENEWAL if self.asleep else REST)


@dataclass(frozen=True)
class DropDefinition(Step):
    """A definition is deleted, and all objects of its kind with it."""

    at: str
    plural: str

    async def act(self, world: World) -> None:
        world.undefined.add(self.at)
        await world[self.at].hand.delete(CUSTOM_RESOURCES, name_of(DEFINED[self.plural]))


@dataclass(frozen=True)
class Install(Step):
    """``liqod install``, in a cluster where it is installed."""

    at: str

    async def act(self, world: World) -> None:
        options = install.Options(cluster_id=self.at)
        await install.install(world[self.at].admin, options, lambda _: None)


@dataclass(frozen=True)
class Undefine(Step):
    """While all is quiet a definition goes, and comes back: every pod at a provider stays.

    A daemon, if one is named, is started anew in between.
    """

    at: str
    plural: str
    anew: str = ""

    async def do(self, world: World) -> None:
        await quiet(world)
        before = _remote_pods(world)
        await DropDefinition(self.at, self.plural).do(world)
        await trio.sleep(ABSENCE / 2)
        if self.anew:
            world[self.anew].kill()
            await world.start()
        await trio.sleep(ABSENCE / 2)
        await define(world)
        lost = before - _remote_pods(world)
        if lost:
            raise Broken(f"a definition went at {self.at}, and the pods {sorted(lost)} with it")


def _remote_pods(world: World) -> set[tuple[str, str, str]]:
    """The pods at providers that run for the consumer: where, which, and its UID."""
    found = set()
    for provider in PROVIDERS:
        for item in world[provider].cluster.registry.storage.of("pods").items(THERE):
            pod = seen(item)
            ends = pod.metadata.deletion_timestamp or pod.status.phase in ENDED
            if pod.metadata.labels.get(labels.ORIGIN) == CONSUMER and not ends:
                found.add((provider, item.name, item.uid))
    return found


@dataclass(frozen=True)
class DropNamespaceMap(Step):
    """The NamespaceMap of a peering is deleted by hand, on either side."""

    at: str
    peer: str

    async def act(self, world: World) -> None:
        namespace = ids.tenant_namespace(self.peer)
        hand, kind = world[self.at].hand, NAMESPACE_MAPS
        for item in list(
            world[self.at].cluster.registry.storage.of(name_of(kind)).items(namespace)
        ):
            await hand.delete(kind, item.name, namespace)


@dataclass(frozen=True)
class Condition(Step):
    """``liqod drain tenant``, ``cordon tenant`` or ``activate tenant`` at a provider."""

    provider: str
    condition: str

    async def act(self, world: World) -> None:
        admin = world[self.provider].admin
        await set_condition(admin, await find_tenant(admin, CONSUMER), self.condition)


@dataclass(frozen=True)
class DropTenant(Step):
    """The Tenant is deleted by hand."""

    provider: str

    async def act(self, world: World) -> None:
        namespace = ids.tenant_namespace(CONSUMER)
        await world[self.provider].hand.delete(TENANTS, CONSUMER, namespace)


@dataclass(frozen=True)
class CutWebhook(Step):
    """The consumer's API server no longer reaches the webhook, or does again."""

    on: bool

    async def act(self, world: World) -> None:
        ends = (f"{CONSUMER}.api", f"{CONSUMER}.hook")
        if self.on:
            world.network.part(*ends)
        else:
            world.network.join(*ends)


@dataclass(frozen=True)
class DropWebhook(Step):
    """The announcement of the webhook is deleted by hand."""

    async def act(self, world: World) -> None:
        await world.context.hand.delete(MUTATING_WEBHOOKS, webhook.NAME)
