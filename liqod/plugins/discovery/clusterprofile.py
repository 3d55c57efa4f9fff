"""Sees the clusters that an inventory lists: ``ClusterProfile`` objects in this cluster.

    apiVersion: multicluster.x-k8s.io/v1alpha1
    kind: ClusterProfile
    metadata: {name: milan, namespace: fleet}
    status:
      properties:
      - {name: liqod.io/cluster-id, value: milan}        # the object's name, if there is none
      - {name: liqod.io/address, value: milan.example:6446}
      - {name: liqod.io/advert.0, value: v1.…}           # values have 128 characters at most
      - {name: liqod.io/advert.1, value: …}

Where it is told to, the plugin also writes the profile of this cluster; one that is somebody else's
it leaves alone. Without the definition, or the right to read it, it waits and sees nothing.
"""

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

import msgspec
import trio

from liqod.apimachinery.kinds import Kind
from liqod.errors import LiqodError, NotFound
from liqod.kube.selection import Selection
from liqod.model import endpoints
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.providers import (
    MOST_ADDRESSES,
    MOST_ADVERT,
    Announcement,
    DiscoveryProvider,
    Services,
    Sighting,
)
from liqod.runtime.log import Seldom

NAME = "clusterprofile"
PROFILES: Final = Kind("multicluster.x-k8s.io", "v1alpha1", "ClusterProfile", "clusterprofiles")
MANAGER: Final = "liqod"
MANAGER_LABEL: Final = "x-k8s.io/cluster-manager"
ID, ADDRESS, ADVERT = "liqod.io/cluster-id", "liqod.io/address", "liqod.io/advert"
LONGEST_VALUE = 128
"""Characters of a property's value, as the definition of ClusterProfile has it."""
MOST_PROPERTIES = 256
"""Properties of one object that are looked at."""
CHECK_EVERY = 10.0
"""Seconds between checks whether this cluster's profile is to be written anew."""

Sighted = Callable[[Sighting], None]
log = logging.getLogger(__name__)


class ClusterProfileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of the plugin: the namespaces of the profiles that it reads and writes.

    Attributes:
        namespace: where they are; all namespaces, if empty.
        publish: namespace in which the profile of this cluster is kept; none, if empty.
    """

    namespace: str = ""
    publish: str = ""


class Property(msgspec.Struct, frozen=True):
    """A property as the object has it."""

    name: str = ""
    value: str = ""


class ClusterProfileStatus(msgspec.Struct, frozen=True):
    """The part of a status that is read."""

    properties: tuple[Property, ...] = ()


class Profile(msgspec.Struct, frozen=True):
    """The part of a ClusterProfile that is read."""

    status: ClusterProfileStatus = ClusterProfileStatus()


def sighting(namespace: str, name: str, profile: Profile) -> Sighting | None:
    """The sighting in one profile; None where it says nothing of liqod."""
    found = {each.name: each.value for each in profile.status.properties[:MOST_PROPERTIES]}
    mine = {key: value for key, value in found.items() if key.startswith("liqod.io/")}
    if not mine:
        return None
    places = [each.strip() for each in mine.get(ADDRESS, "").split(",")]
    pattern = re.compile(re.escape(ADVERT) + r"\.([0-9]{1,2})")
    parts = sorted((int(m[1]), mine[key]) for key in mine if (m := pattern.fullmatch(key)))
    advert = "".join(value for _, value in parts)
    return Sighting(
        cluster_id=mine.get(ID, name),
        plugin=NAME,
        where=f"{namespace}/{name}",
        addresses=tuple(each for each in places if endpoints.split(each))[:MOST_ADDRESSES],
        advert=advert if len(advert) <= MOST_ADVERT else "",
    )


def manifest(cluster_id: str, namespace: str, told: Announcement) -> dict[str, Any]:
    """The profile of this cluster."""
    parts = range(0, len(told.advert), LONGEST_VALUE)
    addresses = ""
    for each in told.addresses:
        longer = f"{addresses},{each}" if addresses else each
        addresses = longer if len(longer) <= LONGEST_VALUE else addresses
    properties = {
        ID: cluster_id,
        **({ADDRESS: addresses} if addresses else {}),
        **{
            f"{ADVERT}.{number}": told.advert[at : at + LONGEST_VALUE]
            for number, at in enumerate(parts)
        },
    }
    return {
        "metadata": {
            "name": cluster_id,
            "namespace": namespace,
            "labels": {MANAGER_LABEL: MANAGER},
        },
        "spec": {"displayName": cluster_id, "clusterManager": {"name": MANAGER}},
        "status": {
            "properties": [{"name": key, "value": value} for key, value in properties.items()]
        },
    }


class ClusterProfiles:
    """Follows the profiles, and keeps that of this cluster.

    Args:
        settings: which.
        services: what it is given of the daemon.
        check_every: seconds between checks whether this cluster's profile is to be written anew.
    """

    def __init__(
        self, settings: ClusterProfileSettings, services: Services, check_every: float = CHECK_EVERY
    ) -> None:
        self._settings, self._check_every = settings, check_every
        self._services = services
        self._seen: dict[tuple[str, str], Sighting] = {}
        self._seldom = Seldom()

    async def run(
        self,
        sighted: Sighted,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> NoReturn:
        """Report sightings until cancelled."""
        task_status.started()
        async with trio.open_nursery() as nursery:
            if self._settings.publish:
                nursery.start_soon(self._publish, self._settings.publish)
            await self._follow(sighted)
        raise AssertionError("profiles are followed until cancelled")

    async def _follow(self, sighted: Sighted) -> None:
        selection = Selection(self._settings.namespace or None)
        # Where nothing defines profiles, this waits until something does.
        async with self._services.share(PROFILES, selection) as informer:

            def changed(change: Any) -> None:
                self._judge(change.key, informer.store.decode(change.key, Profile), sighted)

            stop = informer.subscribe(changed)
            try:
                await trio.sleep_forever()
            finally:
                stop()

    def _judge(self, key: tuple[str, str], profile: Profile | None, sighted: Sighted) -> None:
        """Report the sightings that follow from a change of one profile."""
        before = self._seen.pop(key, None)
        new = None if profile is None else sighting(*key, profile)
        if new is not None and new.cluster_id == self._services.cluster_id and self._is_own(key):
            return
        if before is not None and (new is None or new.cluster_id != before.cluster_id):
            sighted(msgspec.structs.replace(before, gone=True))
        if new is not None:
            self._seen[key] = new
            sighted(new)

    def _is_own(self, key: tuple[str, str]) -> bool:
        """True for the key of this cluster's own profile."""
        return key == (self._settings.publish, self._services.cluster_id)

    async def _publish(self, namespace: str) -> NoReturn:
        """Keep the profile of this cluster as it is to be."""
        written: Mapping[str, Any] = {}
        while True:
            told = self._services.announcement()
            if told is not None:
                wanted = manifest(self._services.cluster_id, namespace, told)
                if wanted != written:
                    try:
                        await self._services.publish(PROFILES, wanted)
                        written = wanted
                    except NotFound:
                        pass  # nothing defines profiles yet, or the namespace is not there
                    except LiqodError as error:
                        if self._seldom.allows(str(error)):
                            log.warning("this cluster's profile is not written: %s", error)
            await trio.sleep(self._check_every)


def build(settings: ClusterProfileSettings, services: Services) -> ClusterProfiles:
    """Made once the daemon leads."""
    return ClusterProfiles(settings, services)


@hookimpl
def liqod_discovery() -> list[DiscoveryProvider]:
    """One way of seeing clusters: an inventory in this cluster."""
    return [
        DiscoveryProvider(
            name=NAME, build=build, config_type=ClusterProfileSettings, on_request=True
        )
    ]
