"""Changing a cluster's key, and seeing what has come of it."""

from typing import Any

from liqod.apimachinery.kinds import PODS
from liqod.consumer.identities.clusterkeys import ClusterKeys, cluster_keys, succeed
from liqod.consumer.timings import ConsumerTimings
from liqod.identity import certificates, keys
from liqod.model import ids
from liqod.plugins import loader
from liqod.provider.timings import ProviderTimings
from tests.simulated.borrower import eventually
from tests.simulated.identity.test_names import CONTROL, SLICE, bound, credentials
from tests.simulated.members import (
    Member,
    keyed,
)

PLUGINS = loader.load(sources=loader.built_in())

SWIFT: dict[str, Any] = {
    "plugins": PLUGINS,
    "timings": ProviderTimings(moved=1.0),
    "consumer_timings": ConsumerTimings(former_key_kept=0.5),
}
"""Members that do not keep for a minute the rights, and the key, that are over."""


async def rotate(rome: Member) -> ClusterKeys:
    """Another key follows rome's."""
    return await succeed(rome.admin, "liqo", "rome")


async def is_for(rome: Member, secret: str, public: bytes) -> bool:
    """True if the certificate that rome has at milan is for that key."""
    given = (await credentials(rome, secret)).client_cert or b""
    return keys.same_public(certificates.read(given).public_key, public)


async def followed(rome: Member, milan: Member, made: ClusterKeys) -> None:
    """Wait until all that rome has at milan is for its next key, and the former one is gone."""

    async def all_is() -> bool:
        return all([await is_for(rome, each, made.public) for each in (CONTROL, SLICE)])

    await eventually(all_is, seconds=30)

    async def gone() -> bool:
        return (await cluster_keys(rome.admin)).former is None

    await eventually(gone, seconds=30)
    name = await keyed(rome)
    assert name == ids.keyed("rome", keys.print_of(made.public))

    async def only() -> bool:
        return await bound(milan) == {name}

    await eventually(only, seconds=30)


async def uid(milan: Member) -> str:
    """Returns the UID of rome's pod at milan."""
    found = await milan.admin.get(PODS, "web", "shop-rome")
    return str(found["metadata"]["uid"])


async def destroyed(who: Member) -> None:
    """Wait until nobody needs the former key any more."""

    async def gone() -> bool:
        return (await cluster_keys(who.admin)).former is None

    await eventually(gone, seconds=30)
