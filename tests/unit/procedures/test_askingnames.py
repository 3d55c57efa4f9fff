"""The cluster's DNS server is asked, and an answer of another one is not taken for its."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from liqod.model.clusterset.corefile import OPTION, Names
from liqod.model.clusterset.importing import derived_name
from liqod.model.view.servicefacts import ImportFacts, NameServer, SharedServices
from liqod.procedures import askingnames
from liqod.procedures.askingnames import NOBODY, VERSION, ask
from tests.unit.plugins import nameserver

KEY = ("shop", "web")
WEB = ImportFacts(KEY, 60.0, ours=True, type="ClusterSetIP", ips=("10.96.0.9",))
NAME = "web.shop.svc.clusterset.local"
HOME = f"{derived_name(KEY)}.shop.svc.corp.example."
DNS = NameServer("kube-system/coredns", Names(OPTION, ("corp.example", "clusterset.local")))


@pytest.fixture
def server() -> Iterator[nameserver.NameServer]:
    made = nameserver.NameServer()
    yield made
    made.close()


def has(server: nameserver.NameServer, name: str, text: str, kind: str = "A") -> None:
    server.records[name, kind] = (5, [text])


async def asked(server: nameserver.NameServer, *imports: ImportFacts) -> tuple[str, str]:
    """The name that is asked for, and the verdict."""
    address, _, port = server.address.partition(":")
    service = askingnames.ServiceName("kube-dns.kube-system.svc", address)
    found = await ask((service, int(port)), SharedServices(imports=imports, dns=DNS))
    assert found.server == "127.0.0.1"
    return found.name, found.verdict


async def test_a_name_of_an_import_is_asked_for(server: nameserver.NameServer):
    has(server, HOME, "10.96.0.9")
    assert await asked(server, WEB) == (NAME, "absent")
    has(server, f"{NAME}.", "10.96.0.8")
    assert await asked(server, WEB) == (NAME, "absent")
    has(server, f"{NAME}.", "10.96.0.9")
    assert await asked(server, WEB) == (NAME, "answered")
    server.failing = {f"{NAME}."}
    assert await asked(server, WEB) == (NAME, "failed")


async def test_an_import_of_the_other_family_is_asked_for_by_its_kind(
    server: nameserver.NameServer,
):
    six = msgspec.structs.replace(WEB, ips=("fd00:10:96::9",))
    has(server, HOME, "fd00:10:96:0::9", "AAAA")
    has(server, f"{NAME}.", "fd00:10:96::9", "AAAA")
    assert await asked(server, six) == (NAME, "answered")


@pytest.mark.parametrize("home", ["", "10.96.0.8"])
async def test_the_server_of_another_cluster_is_told_by_a_name_of_this_one(
    server: nameserver.NameServer, home: str
):
    if home:
        has(server, HOME, home)
    has(server, f"{NAME}.", "10.96.0.9")
    assert await asked(server, WEB) == (NAME, "foreign")


@pytest.mark.parametrize(
    "unfit",
    [{"ips": ()}, {"ours": False}, {"age": 3.0}],
    ids=["headless", "of another program", "too young"],
)
async def test_without_a_name_it_is_asked_for_the_zone(
    server: nameserver.NameServer, unfit: dict[str, Any]
):
    imports = msgspec.structs.replace(WEB, **unfit)
    has(server, "kube-dns.kube-system.svc.corp.example.", "127.0.0.1")
    assert await asked(server, imports) == (VERSION, "absent")
    has(server, f"{VERSION}.", "1.1.0", "TXT")
    assert await asked(server, imports) == (VERSION, "answered")
    server.failing = {f"{NOBODY}."}
    assert await asked(server, imports) == (VERSION, "failed")


async def test_nothing_that_answers_is_no_verdict(server: nameserver.NameServer, monkeypatch):
    monkeypatch.setattr(askingnames, "WITHIN", 0.3)
    server.silent = True
    assert await asked(server, WEB) == (NAME, "silent")


async def test_a_port_that_nobody_has_is_no_verdict():
    server = nameserver.NameServer()
    server.close()
    assert await asked(server, WEB) == (NAME, "silent")
