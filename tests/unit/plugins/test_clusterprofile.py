"""The discovery plugin that reads an inventory of ClusterProfiles."""

from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from liqod.plugins.discovery import clusterprofile
from liqod.plugins.discovery.clusterprofile import LONGEST_VALUE, Profile, manifest, sighting
from liqod.plugins.providers import MOST_ADDRESSES, Announcement, Services, Sighting
from simulator.suites import DiscoveryContract
from tests.unit.plugins.test_manual import FakeInformer

ADVERT = "v1." + "x" * 300


def profile(**properties: str) -> bytes:
    names = {"id": "liqod.io/cluster-id", "at": "liqod.io/address"}
    found = [{"name": names.get(key, key), "value": value} for key, value in properties.items()]
    return msgspec.json.encode({"metadata": {"name": "m"}, "status": {"properties": found}})


def read(body: bytes) -> Sighting | None:
    return sighting("fleet", "m", msgspec.json.decode(body, type=Profile))


class Fleet(FakeInformer):
    """The profiles of one namespace."""

    def write(self, name: str, body: bytes) -> None:
        self._tell(self.store.put(("fleet", name), body))


class TestClusterProfiles(DiscoveryContract):
    provider = clusterprofile.liqod_discovery()[0]
    expected = (
        Sighting(
            cluster_id="milan",
            plugin="clusterprofile",
            where="fleet/m",
            addresses=("milan.example:6446",),
        ),
    )

    @pytest.fixture(autouse=True)
    def fleet(self):
        self.informer = Fleet()
        self.informer.write("m", profile(id="milan", at="milan.example:6446"))
        self.informer.write("other", profile(region="eu"))

        @asynccontextmanager
        async def share(kind: Any, selection: Any, **how: Any):
            yield self.informer

        type(self).services = Services(cluster_id="rome", share=share)

    def lose(self) -> None:
        self.informer.remove("fleet", "m")


@pytest.mark.parametrize(
    ("body", "cluster", "addresses"),
    [
        (profile(region="eu"), None, ()),
        (profile(at="milan.example:6446"), "m", ("milan.example:6446",)),
        (profile(id="milan"), "milan", ()),
        (profile(at="a:1, b:2,c,\x1b:3"), "m", ("a:1", "b:2")),
        (b'{"metadata": {}}', None, ()),
    ],
    ids=range(5),
)
def test_what_a_profile_says(body, cluster, addresses):
    found = read(body)
    assert (found and found.cluster_id) == cluster
    assert (found.addresses if found else ()) == addresses


def test_what_one_cluster_writes_another_reads():
    told = Announcement(advert=ADVERT, port=6446, addresses=("rome.example:6446", "[fd00::1]:6446"))
    made = manifest("rome", "fleet", told)
    assert all(len(each["value"]) <= LONGEST_VALUE for each in made["status"]["properties"])
    found = sighting("fleet", "rome", msgspec.convert(made, Profile))
    assert found is not None
    assert (found.cluster_id, found.advert) == ("rome", ADVERT)
    assert found.addresses == told.addresses


def test_parts_of_an_advert_are_put_in_their_order_and_one_that_is_enormous_is_none():
    parts = {f"liqod.io/advert.{n}": f"{n}," for n in (10, 2, 0, 1, 9)}
    found = read(profile(**parts))
    assert found is not None
    assert found.advert == "0,1,2,9,10,"
    enormous = read(profile(**{f"liqod.io/advert.{n}": "x" * 128 for n in range(50)}))
    assert enormous is not None
    assert enormous.advert == ""


def test_of_many_addresses_so_many_are_taken():
    found = read(profile(at=",".join(f"h{n}:1" for n in range(50))))
    assert found is not None
    assert len(found.addresses) == MOST_ADDRESSES
