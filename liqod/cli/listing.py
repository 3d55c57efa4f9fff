"""Makes the DNS records by which this cluster is found, for an administrator to publish.

Apart from `liqod discover`, which it belongs to, for it brings what signs.
"""

import time
from collections.abc import Sequence

from liqod.cli import presence
from liqod.cli.frame import Frame
from liqod.cluster.ownid import cluster_id
from liqod.consumer.identities.clusterkeys import cluster_keys
from liqod.handshake.protocol import advertcodec
from liqod.handshake.protocol.advertcodec import Advert
from liqod.identity import keys
from liqod.plugins.discovery import zone


async def show(frame: Frame, domain: str, addresses: Sequence[str], namespace: str) -> None:
    """Print the records of this cluster, for a zone file or as ``-o`` says.

    Args:
        frame: of the command.
        domain: by which others look for clusters.
        addresses: ``HOST:PORT`` of this cluster's daemon; where it says that it is, if empty.
        namespace: liqod's own.

    Raises:
        ConfigError: a name or an address cannot be in DNS, or no address is known.
    """
    async with frame.client() as client:
        name = await cluster_id(client, namespace)
        places = addresses or await presence.advertised_addresses(client, namespace)
        pair = await cluster_keys(client, namespace)
    # Free resources are left out: DNS is read much later. The address is in SRV.
    values = Advert(cluster_id=name, serial=int(time.time()))
    found = zone.records(domain, name, advertcodec.sign(values, pair.private), places)
    key = keys.print_of(pair.public)
    if frame.show({"clusterID": name, "key": key, "records": found}):
        return
    width = max(len(each.name) for each in found)
    lines = [f"{each.name:{width}}  {each.ttl} IN {each.type} {each.value}" for each in found]
    frame.print_text("\n".join([f"; {name}, key {key}", *lines]), lines=True)
