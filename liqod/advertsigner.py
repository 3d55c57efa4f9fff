"""Signs the adverts of this cluster, and verifies those of others."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

import trio

from liqod.cluster.context import ClusterContext
from liqod.consumer.identities.clusterkeys import RETRY, ClusterKeys, cluster_keys
from liqod.discovery.sightings import AdvertContent
from liqod.errors import ConfigError, LiqodError, TransientError
from liqod.handshake.protocol import advertcodec
from liqod.handshake.protocol.advertcodec import Advert
from liqod.handshake.protocol.invitationtokens import address
from liqod.identity import keys
from liqod.model import endpoints
from liqod.model.objects import quantities
from liqod.plugins.providers import Announcement
from liqod.resources import QUOTAS, Quota

log = logging.getLogger(__name__)

PACE = 60.0
"""Seconds between two looks at what is free: each difference is an advert that is signed, sent to
everybody and verified by each of them, and several grants in a minute are announced at once."""
OLD = 3600.0
"""Seconds after which an advert is signed anew though nothing in it has changed, so that it goes
before one of an earlier life that somebody sends again."""


class SignedAdverts:
    """The adverts of one cluster.

    Args:
        cluster_id: its id.
        private: its private key, PEM.
        port: where its daemon takes the handshake now; 0 while it takes none.
        addresses: ``HOST:PORT`` at which the operator says that it is reached.
        capabilities: what its daemon can do, by name.
        free: what may be asked for now, as quantities; nothing where that is not announced. It is
            asked once in :data:`PACE`.

    Attributes:
        key: SHA-256 of its public key, in hex.
    """

    def __init__(
        self,
        cluster_id: str,
        private: bytes,
        port: Callable[[], int],
        addresses: tuple[str, ...] = (),
        capabilities: tuple[str, ...] = (),
        free: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._advert = Advert(
            cluster_id=cluster_id, serial=0, addresses=addresses, capabilities=capabilities
        )
        self._private = private
        self._port = port
        self._free = free
        self._announcement: Announcement | None = None
        self._signed = self._checked = 0.0
        self._of: tuple[int, Mapping[str, str]] = (0, {})
        self.key = keys.print_of(keys.public_pem(private))

    def take(self, own: ClusterKeys) -> None:
        """Sign with this key from now on."""
        if own.private != self._private:
            self._private, self._signed = own.private, 0.0
            self.key = keys.print_of(own.public)

    def announcement(self) -> Announcement | None:
        """The announcement of this cluster; None while its daemon takes no handshake."""
        port, now = self._port(), time.time()
        if not port:
            return None
        free = self._of[1]
        if port != self._of[0] or not 0 <= now - self._checked < PACE:
            free, self._checked = dict(self._free()), now
        if (port, free) != self._of or now - self._signed > OLD:
            self._signed, self._of = now, (port, free)
            self._announcement = self._sign(port, free, int(now))
        return self._announcement

    def _sign(self, port: int, free: Mapping[str, str], serial: int) -> Announcement | None:
        advert = Advert(
            cluster_id=self._advert.cluster_id,
            serial=serial,
            addresses=self._advert.addresses,
            capabilities=self._advert.capabilities,
            free=dict(free),
        )
        try:
            text = advertcodec.sign(advert, self._private)
        except LiqodError as error:
            log.warning("this cluster is not announced: %s", error)
            return None
        return Announcement(advert=text, port=port, addresses=advert.addresses)

    def read(self, advert: str) -> AdvertContent:
        """Read an advert. Raises ProtocolError where its signature does not hold."""
        found = advertcodec.verify(advert)
        told = found.advert
        return AdvertContent(
            cluster_id=told.cluster_id,
            key=found.key,
            serial=told.serial,
            addresses=tuple(endpoints.join(*address(each)) for each in told.addresses),
            capabilities=told.capabilities,
            free=told.free,
        )


async def adverts_of(context: ClusterContext, listening: Callable[[], int]) -> SignedAdverts:
    """The adverts of this cluster, by its key and its configuration.

    Args:
        listening: gives the port at which other daemons are met; 0 while there is none.

    Raises:
        ConfigError: as :func:`liqod.consumer.identities.clusterkeys.cluster_keys`.
    """
    while True:
        try:
            pair = await cluster_keys(context.client, context.namespace)
            break
        except TransientError:
            await trio.sleep(RETRY)
    settings = context.config.handshake
    return SignedAdverts(
        context.cluster_id,
        pair.private,
        listening,
        settings.advertise,
        free=partial(free_now, context) if settings.tell_resources else dict,
    )


def free_now(context: ClusterContext) -> dict[str, str]:
    """The default resources of this cluster, less the grants to consumers now.

    Quotas have the grants; they are followed while there is a consumer, and by nobody else.
    """
    informer = context.informers.find(QUOTAS)
    quotas = () if informer is None else informer.store.values(Quota)
    granted = (each.spec.resources for each in quotas)
    return left(context.config.provider.default_resources, granted)


def left(
    whole: Mapping[str, int | str], granted: Iterable[Mapping[str, int | str]]
) -> dict[str, str]:
    """The amounts that remain when parts of them are granted, never below 0. Pure.

    A part that is no quantity counts as none.
    """
    given: Counter[str] = Counter()
    for each in granted:
        with suppress(ConfigError):
            given.update(quantities.parse_all(each))
    try:
        amounts = quantities.parse_all(whole)
    except ConfigError:
        return {}
    return quantities.render_all(
        {name: max(amount - given[name], 0) for name, amount in amounts.items()}
    )
