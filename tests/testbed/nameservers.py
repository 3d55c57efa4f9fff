"""CoreDNS for an embedded cluster, and questions to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dns.exception
import dns.message
import dns.query
import dns.rcode
import trio
from dns.rdatatype import RdataType

from tests.testbed.processes import GO, Child, free_ports, plain_environment

COREFILE = """
.:53 {{
    bind 127.0.0.1
    kubernetes cluster.local {zone} {{
        kubeconfig {kubeconfig}
        {option}
    }}
}}
"""
ZONE = "clusterset.local"


@contextmanager
def naming(
    owner: str, kubeconfig: str, program: str, folder: Path, *, of_set: bool = False
) -> Iterator[int]:
    """A cluster's DNS server, for the length of the block; its port.

    Args:
        kubeconfig: an administrator's, as text.
        program: CoreDNS.
        of_set: whether it answers names of the set, for which the cluster has to have the kinds.
    """
    place = folder / f"{owner}-coredns.kubeconfig"
    place.write_text(kubeconfig)
    zone, option = (ZONE, f"multicluster {ZONE}") if of_set else ("", "")
    corefile = COREFILE.format(zone=zone, option=option, kubeconfig=place)
    with running(owner, corefile, program, folder) as port:
        yield port


@contextmanager
def running(owner: str, corefile: str, program: str, folder: Path) -> Iterator[int]:
    """CoreDNS with a Corefile, with a port of this machine in the place of 53; that port."""
    [port] = free_ports(1)
    place = folder / f"Corefile-{owner}"
    place.write_text(corefile.replace(":53 {", f":{port} {{"))
    log, surroundings = folder / f"coredns-{owner}.log", {**plain_environment(), **GO}
    words = (program, "-conf", str(place))
    child = Child(f"{owner}/coredns", words, log, environment=surroundings)
    try:
        yield port
        child.check()
    finally:
        child.kill()


async def asked(port: int, name: str, kind: RdataType = RdataType.A) -> tuple[str, set[str]]:
    """The code of a DNS server's answer, and the records; nothing where there is no answer."""
    query = dns.message.make_query(name, kind, use_edns=True, payload=4096)
    ask = partial(dns.query.udp, query, "127.0.0.1", timeout=2, port=port)
    try:
        answer = await trio.to_thread.run_sync(ask)
    except (dns.exception.DNSException, OSError):
        return "", set()
    found = {str(item) for each in answer.answer for item in each if item.rdtype == kind}
    return dns.rcode.to_text(answer.rcode()), found


async def targets(port: int, name: str) -> dict[tuple[str, int], set[str]]:
    """The addresses of both families of each target, and its port, that a service's name leads to.

    The target is without the end of the name, from the Service on.
    """
    service = name.split(".", 2)[-1]
    _, records = await asked(port, name, RdataType.SRV)
    found: dict[tuple[str, int], set[str]] = {}
    for _, _, number, target in map(str.split, records):
        host = found.setdefault((target.partition(f".{service}")[0], int(number)), set())
        for kind in (RdataType.A, RdataType.AAAA):
            host |= (await asked(port, target, kind))[1]
    return found
