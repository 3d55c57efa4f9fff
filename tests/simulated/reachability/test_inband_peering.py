"""``liqod peer --in-band``: the way through the tunnel, and what the provider is notified of it."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from liqod.apimachinery import labels
from liqod.errors import ConfigError, Misuse
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.procedures import kubeconfigpeering
from liqod.procedures.inbandpeering import InBandOptions
from liqod.procedures.networksites import Site
from liqod.resources import CONFIGURATIONS, IPS, TENANTS, Tenant
from tests.simulated.members import AT_MILAN, AT_ROME, Member, members
from tests.simulated.network.test_networking import join, two
from tests.simulated.reachability.test_proxy import proxied


def sites(rome: Member, milan: Member) -> tuple[Site, Site]:
    """rome, which borrows, and milan."""
    here = Site(rome.admin, "rome", "milan", AT_ROME, labels.LIQO_NAMESPACE)
    return here, Site(milan.admin, "milan", "rome", AT_MILAN, labels.LIQO_NAMESPACE)


async def shown(milan: Member, address: str, annotations: dict[str, str]) -> None:
    """milan lets somebody in, at an address of its external range."""
    metadata = {"name": labels.API_SERVER_PROXY, "annotations": annotations}
    wanted: dict[str, Any] = {"metadata": metadata, "spec": {"ip": "169.254.19.1"}}
    await milan.admin.create(IPS, wanted, labels.LIQO_NAMESPACE)
    status = {"status": {"ip": address, "cidr": "10.70.0.0/20"}}
    await milan.admin.patch(
        IPS, labels.API_SERVER_PROXY, status, labels.LIQO_NAMESPACE, subresource="status"
    )


OURS = {labels.API_SERVER: "172.20.0.1:6443"}


@pytest.mark.parametrize(
    ("address", "annotations", "url"),
    [
        pytest.param("10.70.0.1", OURS, "", id="liqod's daemons find each other"),
        pytest.param(
            *("10.70.0.7", OURS, "http://{}.7:8118"),
            id="unless it is elsewhere",
            marks=pytest.mark.long,
        ),
        pytest.param(
            *("10.70.0.2", {}, "http://{}.2:8118"), id="Liqo's proxy", marks=pytest.mark.long
        ),
    ],
)
async def test_the_way_is_found_by_the_providers_ip(
    monkeypatch: pytest.MonkeyPatch, address: str, annotations: dict[str, str], url: str
) -> None:
    async with two(monkeypatch) as (rome, milan):
        here, there = sites(rome, milan)
        with pytest.raises(ConfigError, match=r"in_band of its daemon must name rome"):
            await InBandOptions(requested=True).proxy(here, there, rome.progress)
        await shown(milan, address, annotations)
        with pytest.raises(ConfigError, match="needs joined networks"):
            await InBandOptions(requested=True).proxy(here, there, rome.progress)
        await join(rome, milan)
        alias = await external(rome)
        found = await InBandOptions(requested=True).proxy(here, there, rome.progress)
        assert found == url.format(alias)


async def external(rome: Member) -> str:
    """How the aliases of milan's external range begin at rome."""
    found = await rome.admin.get(CONFIGURATIONS, "milan", AT_ROME)
    return str(found["status"]["remote"]["cidr"]["external"][0]).rpartition(".")[0]


@pytest.mark.long
async def test_the_provider_is_told_the_proxy_and_gives_it_back() -> None:
    """As Liqo does: the kubeconfig has it from the beginning, and nothing goes another way."""
    async with proxied() as proxy, members("rome", "milan") as [rome, milan]:
        user = from_kubeconfig(await milan.peering_user(rome))

        async def peer(url: str) -> None:
            async with Client(user) as remote:
                way = InBandOptions(requested=True, proxy_url=url)
                with trio.fail_after(30):
                    await kubeconfigpeering.peer(
                        rome.admin, remote, None, progress=rome.progress, in_band=way
                    )

        await peer(proxy.url)
        assert proxy.asked
        tenant = await milan.admin.get(TENANTS, "rome", AT_MILAN, decode=Tenant)
        assert tenant.spec.proxy_url == proxy.url
        # Again, with the same; with another only the provider's administrator may.
        await peer(proxy.url)
        with pytest.raises(ConfigError, match="only its administrator may") as refused:
            await peer("http://192.0.2.1:3128")
        assert "hunter2" not in str(refused.value)


def test_what_is_no_proxy_is_refused_at_once() -> None:
    for url in ("socks5://10.0.0.1:1080", "10.0.0.1:3128", "http://", "http://a b:1"):
        with pytest.raises(Misuse, match="--proxy-url"):
            InBandOptions(proxy_url=url)
