"""The cost of mDNS to a daemon in a network of many clusters, and how soon a cluster is seen.

    python -m benchmarks.discovery [--clusters 1000] [--seconds 60]

Needs root. A daemon's discovery runs in a network namespace; the other clusters are packets, such
as their daemons send: each cluster with a key and a signed advert of its own, announced once within
:data:`BEGIN` seconds and then as often as they are by default. The process is measured: its
resident memory before and after, and its processor time while all are announced on and on. Then a
second daemon starts, and is seen.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from zeroconf import ServiceInfo, Zeroconf

from liqod.handshake.protocol import advertcodec
from liqod.handshake.protocol.advertcodec import Advert
from liqod.identity import keys
from liqod.network.dataplane.kernel.namespaces import enter
from liqod.plugins.discovery import texts
from liqod.plugins.discovery.mdns import KEPT, MdnsSettings
from liqod.plugins.discovery.mdnsedge import TYPE
from tests.netns.announcers import Program, bridged

BEGIN = 20.0
"""Seconds within which all clusters are announced first."""
SETTLE = 5.0
"""Seconds before the first figure."""
MULTICAST = ("224.0.0.251", 5353)


def announcement(number: int) -> bytes:
    """The packet with which one cluster is announced."""
    name = f"cluster-{number}"
    values = Advert(cluster_id=name, serial=int(time.time()), capabilities=("streams",))
    advert = advertcodec.sign(values, keys.generate())
    ttl = round(KEPT * MdnsSettings().every)
    info = ServiceInfo(
        TYPE,
        f"{name}.{TYPE}",
        port=6446,
        properties=b"".join(bytes([len(e)]) + e for e in texts.pack(name, advert)),
        server=f"liqod-{number:08x}.local.",
        parsed_addresses=[f"10.31.{1 + number // 250}.{1 + number % 250}", f"fd00:31::{number:x}"],
        host_ttl=ttl,
        other_ttl=ttl,
    )
    # What it makes of a service needs nothing of an instance, which would open sockets.
    made = Zeroconf.generate_service_broadcast(Zeroconf.__new__(Zeroconf), info, None)
    (packet,) = made.packets()
    return packet


def opened(address: str) -> socket.socket:
    """A socket that sends to the multicast group from that address."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
    made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 255)
    made.bind((address, 5353))
    return made


def spread(sender: socket.socket, packets: Sequence[bytes], seconds: float) -> None:
    """Send the packets one after the other, over so many seconds."""
    began = time.monotonic()
    for number, packet in enumerate(packets):
        due = began + seconds * number / len(packets)
        time.sleep(max(due - time.monotonic(), 0))
        sender.sendto(packet, MULTICAST)


def figures(pid: int) -> tuple[float, float]:
    """Resident memory in MiB and seconds of processor time of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20, ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0, help="of the steady state")
    options = parser.parse_args()
    if os.geteuid():
        sys.exit("it needs root: it makes network namespaces")
    packets = [announcement(number) for number in range(options.clusters)]
    size = sum(map(len, packets)) / len(packets)
    print(
        f"{len(packets)} clusters, a packet of {size:.0f} bytes each in "
        f"{MdnsSettings().every:.0f} s"
    )
    with bridged(f"bench{os.getpid()}", 3) as lan:
        sender = enter(lan[1], partial(opened, "10.31.0.2"))
        without = Program(lan[0], "mdns", {"cluster": "rome", "off": True})
        time.sleep(SETTLE)
        off, _ = figures(without.process.pid)
        without.stop(kill=True)
        rome = Program(lan[0], "mdns", {"cluster": "rome"})
        time.sleep(SETTLE)
        alone, _ = figures(rome.process.pid)
        spread(sender, packets, BEGIN)
        time.sleep(SETTLE)
        full, before = figures(rome.process.pid)
        seen = len(rome.now())
        spread(
            sender, packets * max(1, round(options.seconds / MdnsSettings().every)), options.seconds
        )
        after, used = figures(rome.process.pid)
        part = (used - before) / options.seconds
        print(f"resident without mDNS {off:.1f} MiB, with it {alone:.1f} MiB (+{alone - off:.1f})")
        print(f"with {seen} clusters {full:.1f} MiB, later {after:.1f} MiB (+{after - alone:.1f})")
        print(f"processor {100 * part:.2f} % of a core over {options.seconds:.0f} s")
        milan = Program(lan[2], "mdns", {"cluster": "milan"})
        began = milan.waits("").at
        taken = rome.waits("milan").at - began
        print(f"a cluster is seen {taken:.2f} s after its discovery starts")
        for each in (rome, milan):
            each.stop(kill=True)
        sender.close()


if __name__ == "__main__":
    main()
