"""A relay in front of an embedded cluster."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from liqod.identity import certificates
from simulator import EmbeddedCluster
from tests.testbed import virtualtime
from tests.testbed.relays import Files, Relay, stand


def files(cluster: EmbeddedCluster, folder: Path) -> Files:
    """Writes the files that a relay needs to pass for a cluster."""
    serving = certificates.make_server(cluster.ca, ["127.0.0.1"])
    admin = certificates.make_client(cluster.ca, "relay", ("system:masters",))
    made = Files(
        *(folder / f"relay-{name}.pem" for name in ("ca", "cert", "key", "admin", "adminkey"))
    )
    made.authority.write_bytes(cluster.ca.certificate)
    for pair, certificate, key in (
        (serving, made.certificate, made.key),
        (admin, made.admin_certificate, made.admin_key),
    ):
        certificate.write_bytes(pair.certificate)
        key.write_bytes(pair.key)
    return made


@asynccontextmanager
async def relayed(cluster: EmbeddedCluster, folder: Path) -> AsyncIterator[Relay]:
    """A relay process that ends with the block."""
    given = files(cluster, folder)
    with virtualtime.real():
        relay = await trio.to_thread.run_sync(stand, cluster.name, cluster.server, given, folder)
        try:
            yield relay
        finally:
            relay.close()
