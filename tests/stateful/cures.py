"""Ends trouble, and does then as people do on the program's advice: installs again, peers again."""

import time
from collections.abc import Iterator
from contextlib import suppress

import msgspec
import trio

from liqod import install
from liqod.apimachinery.kinds import CUSTOM_RESOURCES
from liqod.errors import LiqodError, ProtocolError
from liqod.identity import certificates
from liqod.identity.certificates import CertificateInfo
from liqod.kube.definitions import RETURN, name_of
from liqod.kube.watched import RESYNC
from liqod.model import ids
from liqod.procedures.tenantstate import find_tenant, set_condition
from liqod.resources import IDENTITIES, Identity
from tests.stateful.audit import Broken, seen
from tests.stateful.world import CONSUMER, NAMES, PROVIDERS, World

PEERING_DEADLINE = 120.0
GOING = 120.0
"""Seconds in which a definition that was deleted must be gone, where every daemon runs."""
MADE_AGAIN = RETURN + 60.0
"""Seconds until objects of a kind that is back are made again, and what stood for the others is
removed."""
RENEW_AT = 0.7
"""The part of a certificate's life after which it must have been renewed: daemons do it at 2/3."""
RENEWAL = RESYNC + 60.0
"""Seconds until it is noticed that a certificate is due, where the clock went on without us."""


def lift(world: World) -> None:
    """Have no trouble any more, but for daemons that do not run."""
    for name in NAMES:
        site = world[name]
        site.cluster.faults.clear()
        site.mischief.clear()
    world.network.cut.clear()


async def quiet(world: World) -> None:
    """Have no trouble, every daemon running, every complaint followed, and nothing to do left."""
    lift(world)
    for name in NAMES:
        await world[name].answer(world.nursery)
    await world.start()
    await define(world)
    for provider in PROVIDERS:
        await _uncordon(world, provider)
    if world.aged:
        world.aged = False
        for provider in PROVIDERS:
            await _peer_again(world, provider)
        if any(is_due(facts) for each in PROVIDERS for _, facts in facts_of(world, each)):
            await trio.sleep(RENEWAL)
    await world.settle()


async def define(world: World) -> None:
    """Install again where definitions are missing, and have that be over."""
    names, world.undefined = sorted(world.undefined), set()
    for name in names:
        await _define(world, name)
    if names:
        await trio.sleep(MADE_AGAIN)


async def _define(world: World, name: str) -> None:
    if not await world.until(lambda: not ending(world, name), GOING):
        raise Broken(f"{name}: the definition {ending(world, name)[0]} never goes")
    await install.install(world[name].admin, install.Options(cluster_id=name), lambda _: None)


async def _uncordon(world: World, provider: str) -> None:
    admin = world[provider].admin
    with suppress(LiqodError):
        tenant = await find_tenant(admin, CONSUMER)
        if tenant["spec"].get("tenantCondition") == "Cordoned":
            await set_condition(admin, tenant, "Active")


async def _peer_again(world: World, provider: str) -> None:
    """As ``liqod status`` says where the certificate of the control plane has expired."""
    name = ids.control_plane_identity(provider)
    found = dict(facts_of(world, provider)).get(name)
    if found is not None and found.not_after < time.time():
        with suppress(LiqodError), trio.move_on_after(PEERING_DEADLINE):
            await world.peer(provider)


def facts_of(world: World, provider: str) -> Iterator[tuple[str, CertificateInfo]]:
    """The Identities at a provider, and what the certificate of each says."""
    storage = world[CONSUMER].cluster.registry.storage
    for item in storage.of(name_of(IDENTITIES)).items(ids.tenant_namespace(provider)):
        identity = msgspec.json.decode(item.raw, type=Identity)
        with suppress(ProtocolError):
            yield item.name, certificates.read(identity.spec.auth_params.signed_crt)


def is_due(facts: CertificateInfo) -> bool:
    """True if a certificate should have been renewed by now."""
    return time.time() > certificates.renewal(facts, RENEW_AT)


def ending(world: World, name: str) -> list[str]:
    """The definitions of a cluster that are being deleted."""
    storage = world[name].cluster.registry.storage
    found = storage.of(name_of(CUSTOM_RESOURCES)).items()
    return [item.name for item in found if seen(item).metadata.deletion_timestamp]
