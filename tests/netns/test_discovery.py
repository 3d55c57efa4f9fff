"""Clusters of one network find each other by mDNS: real packets between network namespaces."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator

import pytest

from tests.netns.announcers import Program, bridged
from tests.netns.lab import possible

pytestmark = [
    *(pytest.mark.netns, pytest.mark.handshake),
    pytest.mark.skipif(bool(possible()), reason=possible()),
]

SETTINGS = {"every": 1.0, "interfaces": ["eth0"]}
"""Settings of mDNS: a source not observed for five seconds, the shortest time, has gone."""


@pytest.fixture
def lan() -> Iterator[list[str]]:
    with bridged(f"mdns{os.getpid()}", 3) as names:
        yield names


def announcing(namespace: str, cluster: str) -> Program:
    return Program(namespace, "mdns", {"cluster": cluster, "settings": SETTINGS})


def test_three_clusters_see_each_other_vanish_return_renamed_and_share_an_id(lan):
    rome, milan = announcing(lan[0], "rome"), announcing(lan[1], "milan")
    turin = announcing(lan[2], "turin")
    try:
        for one, others in ((rome, (milan, turin)), (milan, (rome, turin)), (turin, (rome, milan))):
            for other, name in zip((rome, milan, turin), ("rome", "milan", "turin"), strict=True):
                if other in others:
                    assert one.waits(name).key == other.key
        assert set(rome.now()) == {"milan", "turin"}, "it sees itself"
        assert set(rome.now()["turin"].addresses) == {"10.31.0.3:6446", "[fd00:31::3]:6446"}

        # Another port is taken up.
        milan.say(7000)
        rome.waits("milan", addresses=("10.31.0.2:7000", "[fd00:31::2]:7000"))

        # One that ends says so: nobody waits for its time to be over.
        asked = time.time()
        turin.stop()
        assert rome.waits("turin", since=asked, gone=True).at - asked < 4

        # The same machine with another name is another cluster. One that is killed says nothing.
        turin = announcing(lan[2], "oslo")
        rome.waits("oslo")
        assert set(rome.now()) == {"milan", "oslo"}
        turin.stop(kill=True)
        rome.waits("oslo", gone=True)

        # Two with one id: both are seen, each by a name of its own and with its key.
        turin = announcing(lan[2], "milan")
        rome.waits("milan", key=turin.key)
        both = rome.now()
        assert {each.cluster_id for each in both.values()} == {"milan"}
        assert {each.key for each in both.values()} == {milan.key, turin.key}
        assert len(both) == 2
    finally:
        for each in (rome, milan, turin):
            each.stop(kill=True)


ZONE = """\
$ORIGIN clusters.example.
$TTL 5
@ IN SOA ns.clusters.example. admin.clusters.example. {serial} 60 60 60 5
@ IN NS ns.clusters.example.
ns IN A 10.31.0.1
{records}
"""


def zone(serial: int, *names: str) -> str:
    records = [f"_liqod._tcp IN SRV 0 0 6446 {name}.clusters.example." for name in names]
    # An advert that no name server sends in one datagram: it is fetched by TCP.
    parts = " ".join(f'"a={"x" * 250}"' for _ in range(5))
    records += [f'_liqod.{name} IN TXT "id={name}" {parts}' for name in names]
    return ZONE.format(serial=serial, records="\n".join(records))


def test_srv_records_of_a_real_name_server_that_change_are_followed(tmp_path, coredns):
    records = tmp_path / "zone"
    records.write_text(zone(1, "milan", "turin"))
    corefile = tmp_path / "Corefile"
    corefile.write_text(
        f"clusters.example:53 {{\n  file {records} {{\n    reload 500ms\n  }}\n}}\n"
    )
    with bridged(f"dns{os.getpid()}", 2) as (server, client):
        command = [f"--net=/run/netns/{server}", coredns, "-conf", str(corefile), "-quiet"]
        named = subprocess.Popen(["nsenter", *command], stdout=subprocess.DEVNULL)
        settings = {"domains": ["clusters.example"], "nameservers": ["10.31.0.1", "fd00:31::1"]}
        rome = Program(client, "dns-srv", {"cluster": "rome", "settings": settings})
        try:
            assert rome.waits("milan").addresses == ("milan.clusters.example:6446",)
            rome.waits("turin")
            assert "1250 characters" in rome.waits("milan").problem
            records.write_text(zone(2, "milan", "oslo"))
            rome.waits("oslo")
            rome.waits("turin", gone=True)
            assert {each.cluster_id for each in rome.now().values()} == {"milan", "oslo"}
        finally:
            rome.stop(kill=True)
            named.kill()
            named.wait()
