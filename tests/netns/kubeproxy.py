"""kube-proxy on a gateway in a namespace, for the Services of an embedded cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from liqod.apimachinery.kinds import NODES
from tests.netns.test_joined_clusters import Site
from tests.testbed.netns import doorway
from tests.testbed.processes import GO, Child, plain_environment

NODE = "gateway"
"""The name of the node that it is on."""


@asynccontextmanager
async def proxying(site: Site, program: Path, folder: Path) -> AsyncIterator[None]:
    """kube-proxy on a cluster's gateway, for the length of the block.

    An embedded cluster takes no protobuf. Without a node that has an address kube-proxy would wait
    for half a minute.

    Args:
        program: kube-proxy.
        folder: for its files.
    """
    own, member = folder / f"kube-proxy-{site.member.id}", site.member
    own.mkdir()
    kubeconfig = own / "kubeconfig"
    kubeconfig.write_text(member.cluster.kubeconfig)
    address = {"type": "InternalIP", "address": "192.0.2.1"}
    await member.admin.create(NODES, {"metadata": {"name": NODE}})
    await member.admin.patch(
        NODES, NODE, {"status": {"addresses": [address]}}, subresource="status"
    )
    words = (
        *("nsenter", f"--net=/run/netns/{site.node}", str(program)),
        *(f"--kubeconfig={kubeconfig}", f"--hostname-override={NODE}"),
        *("--proxy-mode=nftables", "--cluster-cidr=10.244.0.0/16"),
        *("--conntrack-max-per-core=0", "--kube-api-content-type=application/json"),
    )
    surroundings = {**plain_environment(), **GO}
    with doorway(site.node, member.cluster.port):
        child = Child(f"{member.id}/kube-proxy", words, own / "log", environment=surroundings)
        try:
            yield
        finally:
            child.kill()
