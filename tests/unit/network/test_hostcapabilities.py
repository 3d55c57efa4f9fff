"""Abilities of this machine for networks: its backends, and its addresses."""

import logging
import socket
from typing import Any

import pytest

from liqod.errors import LiqodError, NetworkError
from liqod.network.backends import LoadedBackend, is_allowed
from liqod.network.dataplane.datapath import KernelDatapath
from liqod.network.hostcapabilities import HostCapabilities, HostSettings, to_server
from liqod.network.orders.tunnels import DISABLED, Surroundings
from liqod.network.ownaddresses import own_addresses
from liqod.plugins.callguard import CallGuards
from liqod.plugins.providers import TunnelProvider
from liqod.runtime.account import NODE_SHARES, PROXY, Account


def provider(name: str = "wireguard", *, encrypted: bool = True, asked: bool = False):
    return TunnelProvider(
        name=name,
        build=lambda *_: None,  # type: ignore[arg-type]
        encrypted=encrypted,
        overhead=80,
        on_request=asked,
    )


def test_what_encrypts_needs_no_naming():
    assert is_allowed(provider(), ())
    assert not is_allowed(provider("vxlan", encrypted=False), ())
    assert not is_allowed(provider("websocket", asked=True), ())


def test_what_is_named_is_used_and_nothing_else():
    assert is_allowed(provider("vxlan", encrypted=False), ("vxlan",))
    assert not is_allowed(provider(), ("vxlan",))


@pytest.mark.parametrize(
    ("node", "addresses"),
    [
        ("192.0.2.5", ("192.0.2.5",)),
        ("2001:db8::5", ("2001:db8::5",)),
        ("127.0.0.1", ()),
        ("::1", ()),
        ("0.0.0.0", ()),
        ("fe80::1", ()),
        ("", ()),
    ],
)
def test_peers_reach_it_where_it_is_a_node(node: str, addresses: tuple[str, ...]):
    assert own_addresses(node) == addresses


AROUND = Surroundings(
    address="192.0.2.5", server="https://192.0.2.9:6443", reached="https://[::1]:6443"
)


class Rope:
    """A tunnel that lacks something, or cannot be asked, until it does not."""

    def __init__(self, lacks: list[str | LiqodError | None]) -> None:
        self._lacks = lacks

    async def problem(self) -> str | None:
        found = self._lacks.pop() if self._lacks else None
        if isinstance(found, LiqodError):
            raise found
        return found

    async def up(self, *_: Any, **__: Any) -> float:
        return 60.0

    async def status(self) -> None:
        return None

    async def down(self) -> None:
        return None


def capabilities(settings: HostSettings, *lacks: str | LiqodError | None) -> HostCapabilities:
    """Those of a machine with one backend, which lacks something at one look after another."""
    remaining = list(reversed(lacks))
    made = TunnelProvider(
        name="rope", build=lambda *_: Rope(remaining), encrypted=True, overhead=80, port=7
    )
    backends = [LoadedBackend(made, None, CallGuards().of("network", "rope", own=False))]
    return HostCapabilities(
        "rome", settings, backends, Account(shares=NODE_SHARES)[PROXY], folder="/nowhere"
    )


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lets the kernel have data paths, but for what is put here."""
    lacks = list[str]()

    async def problem(_: object) -> str | None:
        return lacks.pop() if lacks else None

    monkeypatch.setattr(KernelDatapath, "problem", problem)
    return lacks


async def test_they_come_from_its_own_configuration_and_from_what_the_daemon_adds(able: list[str]):
    found = await capabilities(HostSettings()).look(AROUND)
    assert found.facts.addresses == ("192.0.2.5",)
    assert found.facts.backends["rope"].port == 7
    assert found.facts.problem == ""
    assert found.proxy is not None
    assert found.watch is not None
    told = HostSettings(advertise=("198.51.100.1",), backends=("wireguard",))
    other = await capabilities(told).look(Surroundings())
    assert other.facts.addresses == ("198.51.100.1",)
    assert other.facts.problem == "there is no backend for tunnels"
    assert other.proxy is None, "it does not know where the API server is"


async def test_what_lacks_is_said_once_and_found_when_it_is_there(
    able: list[str], caplog: pytest.LogCaptureFixture
):
    able += ["missing: nft", "missing: nft"]
    made = capabilities(HostSettings(), "no rope")
    with caplog.at_level(logging.WARNING):
        found = [(await made.look(AROUND)).facts.problem for _ in range(4)]
    assert found == ["missing: nft", "missing: nft", "tunnels by rope: no rope", ""]
    assert [each.message for each in caplog.records] == [
        "the networks of peers cannot be joined: missing: nft",
        "tunnels by rope: no rope",
    ]


async def test_a_backend_that_cannot_be_asked_goes_on_by_its_last_answer(able: list[str]):
    silent = NetworkError("the kernel has not answered for 5 s")
    made = capabilities(HostSettings(), silent, None, silent, "no rope", silent)
    found = [await made.look(AROUND) for _ in range(5)]
    assert [list(each.tunnels) for each in found] == [[], ["rope"], ["rope"], [], []]
    assert [bool(each.facts.undecided) for each in found] == [True, False, True, False, True]
    assert [each.facts.unknown for each in found] == [True, False, False, False, True]
    assert found[0].facts.undecided == {"rope": str(silent)}


async def test_a_machine_that_joins_no_networks_looks_at_nothing(able: list[str]):
    able.append("looked")
    assert (await capabilities(HostSettings(enabled=False)).look(AROUND)).facts == DISABLED
    assert able == ["looked"]


async def test_no_peer_is_led_to_a_service_of_the_machine_s_own():
    """By a daemon that says that its API server is there, also by a name for that address."""
    with socket.create_server(("127.0.0.1", 0)) as service:
        port = service.getsockname()[1]
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]"):
            with pytest.raises(OSError, match="loopback"):
                await to_server(f"https://{host}:{port}", ("192.0.2.9",))
        with pytest.raises(OSError, match="metadata service"):
            await to_server("http://169.254.169.254", ("127.0.0.1",))
        made = await to_server(f"https://127.0.0.1:{port}", ("127.0.0.1",))
        await made.aclose()
