"""The package's own tests: the contracts that liqod ships, and what its functions say."""

from pathlib import Path
from typing import Any, ClassVar

import pytest
from liqod_gadgets import CHECK, GADGETS, HOSTS, REFLECTOR  # type: ignore[import-not-found]
from liqod_gadgets.reflector import combine, incoming, outgoing  # type: ignore[import-not-found]

from liqod.plugins.contracts import CONFIG_MAPS, Kind
from liqod.plugins.diagnosis import ClusterFacts, PeerFacts
from liqod.plugins.providers import Sighting
from simulator.suites import (
    CheckContract,
    DiscoveryContract,
    ReflectorContract,
    StaticView,
)


def manifest(kind: Kind, name: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
        **more,
    }


LAMP = manifest(GADGETS, "lamp", spec={"size": 2})
PAINT = manifest(CONFIG_MAPS, "paint", data={"colour": "red"})
REMOTE = manifest(GADGETS, "lamp", spec={"size": 2, "colour": "red"}, status={"lit": True})
DARK = {**REMOTE, "status": {"lit": False}}


class TestGadgets(ReflectorContract):
    reflector = REFLECTOR
    sources = (LAMP,)
    local = (PAINT,)
    remote = (REMOTE,)
    elsewhere = (DARK,)


class TestHosts(DiscoveryContract):
    provider = HOSTS
    expected = (
        Sighting(
            cluster_id="milan",
            plugin="gadget-hosts",
            addresses=("milan.example:6446",),
            ttl=3 * 0.05,
        ),
    )

    @pytest.fixture(autouse=True)
    def file(self, tmp_path: Path) -> None:
        path = tmp_path / "hosts.toml"
        path.write_text('milan = ["milan.example:6446"]\n')
        type(self).settings = {"file": str(path), "every": 0.05}

    def lose(self) -> None:
        Path(type(self).settings["file"]).write_text("")


class TestCheck(CheckContract):
    check = CHECK
    facts = (PeerFacts(now=1.0, peer="milan", cluster=ClusterFacts(now=1.0), lends=True),)
    answers: ClassVar[dict[str, bytes]] = {
        "/apis/example.com/v1": b'{"resources": [{"name": "gadgets"}]}'
    }


def test_a_gadget_is_painted() -> None:
    (remote_object,) = outgoing(LAMP, StaticView(REFLECTOR, local=[PAINT])).remote
    assert remote_object["spec"] == {"size": 2, "colour": "red"}


def test_a_gadget_without_paint_says_so() -> None:
    plan = outgoing(LAMP, StaticView(REFLECTOR))
    assert plan.remote == ()
    assert [reason.code for reason in plan.reasons] == ["NoPaint"]


def test_it_is_lit_where_it_is_lit_anywhere() -> None:
    assert incoming(LAMP, (REMOTE,), StaticView(REFLECTOR)).status == {"lit": True}
    assert combine(LAMP, {"milan": {"lit": True}, "turin": {"lit": False}}) == {
        "lit": True,
        "at": ["milan"],
    }
