"""Arbitration between the reports of several peers: the one that is written, and its retraction."""

from typing import Any

import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS
from liqod.plugins.contracts import NOTHING, Reflector, RemoteKind, Several
from liqod.reflection.statusarbitration import DesiredStatus, Retraction, StatusArbiter, taken_back
from liqod.reflection.view import ReflectedObject

LAMP = ReflectedObject("gadgets", "shop", "lamp")


class Talk:
    """The reports of peers on one object, its resulting status, and the peers asked again."""

    def __init__(self, several: Several = Several.FIRST) -> None:
        self.reflector = Reflector(
            name="gadgets",
            kind=CONFIG_MAPS,
            outgoing=lambda source, view: NOTHING,
            remote=(RemoteKind(kind=CONFIG_MAPS),),
            several=several,
        )
        self.arbiter = StatusArbiter()
        self.retracted: list[Retraction] = []
        self.arbiter.retracted = self.retracted.append
        self.asked: list[str] = []
        self.live: dict[str, Any] = {}

    def says(self, peer: str, status: Any, *made: str, uid: str = "1") -> dict[str, Any] | None:
        """The patch that the peer's engine writes; None where it is not its turn."""
        said = DesiredStatus(status, frozenset(("ConfigMap", name) for name in made))
        self.arbiter.set_desired(
            self.reflector, LAMP, uid, peer, said, lambda: self.asked.append(peer)
        )
        return self.turn(peer)

    def turn(self, peer: str) -> dict[str, Any] | None:
        wanted = self.arbiter.resolve(LAMP, peer, lambda said: {"all": sorted(said)})
        if wanted is None:
            return None
        patch = self.arbiter.patch(LAMP, peer, wanted, self.live)
        self.live = {**self.live, **patch}
        self.live = {key: value for key, value in self.live.items() if value is not None}
        self.arbiter.written(LAMP, peer, wanted)
        return patch


def test_one_peer_alone_is_written_once():
    talk = Talk()
    assert talk.says("milan", {"a": 1}) == {"a": 1}
    assert talk.says("milan", {"a": 1}) == {}
    assert talk.says("milan", {"b": 2}) == {"a": None, "b": 2}
    assert talk.says("milan", None) == {"b": None}
    assert not talk.arbiter.tracks(LAMP, "milan")


def test_the_first_takes_over_and_hands_on():
    talk = Talk()
    talk.says("turin", {"t": 1})
    assert talk.says("milan", {"m": 1}) == {"t": None, "m": 1}
    assert talk.asked == ["turin"]
    assert talk.turn("turin") is None
    assert talk.says("turin", {"t": 2}) is None
    talk.asked.clear()
    talk.arbiter.end("milan", ["shop"])
    assert talk.asked == ["turin"]
    assert talk.turn("turin") == {"m": None, "t": 2}
    (retraction,) = talk.retracted
    assert (retraction.peer, retraction.shown) == ("milan", {})
    talk.arbiter.end("turin")
    assert talk.retracted[-1].shown == {"t": 2}
    assert talk.arbiter.namespaces("turin") == set()


def test_fields_of_ones_own_are_taken_back_alone():
    talk = Talk(Several.BY_PEER)
    talk.says("milan", {"m": 1})
    talk.says("turin", {"t": 1})
    assert talk.live == {"m": 1, "t": 1}
    assert not talk.asked
    talk.arbiter.end("milan")
    assert talk.retracted[0].shown == {"m": 1}
    assert talk.says("turin", None) == {"t": None}


def test_the_first_writes_what_all_say():
    talk = Talk(Several.MERGED)
    assert talk.says("milan", {"m": 1}) == {"all": ["milan"]}
    assert talk.says("turin", {"t": 1}) is None
    assert talk.asked == ["milan"]
    assert talk.turn("milan") == {"all": ["milan", "turin"]}
    talk.arbiter.end("milan")
    assert talk.turn("turin") == {"all": ["turin"]}


def test_another_object_of_the_name_begins_anew():
    talk = Talk()
    talk.says("milan", {"a": 1})
    talk.live = {}
    assert talk.says("milan", {"b": 1}, uid="2") == {"b": 1}
    talk.arbiter.forget(LAMP, "milan")
    talk.arbiter.end("milan")
    assert not talk.retracted


def test_objects_here_are_made_by_one():
    talk = Talk(Several.MERGED)
    talk.says("turin", None, "a", "b")
    talk.says("milan", None, "a")
    assert talk.arbiter.others(LAMP, "turin") == {("ConfigMap", "a")}
    assert talk.arbiter.others(LAMP, "milan") == frozenset()
    talk.asked.clear()
    talk.says("milan", None, "c")
    assert talk.asked == ["turin"]


@pytest.mark.parametrize(
    ("shown", "live", "patch"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, {"a": None}),
        ({"a": 1}, {"a": 7}, {}),
        ({"a": 1}, {}, {}),
        ({"a": None}, {"a": 1}, {}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "y": 7}}, {"a": {"x": None}}),
        ({"a": [1]}, {"a": [1]}, {"a": None}),
    ],
)
def test_only_what_is_still_so_is_taken_back(shown, live, patch):
    assert taken_back(shown, live, {}) == patch
    assert taken_back(shown, live, shown) == {}


def test_what_may_have_been_written_is_taken_back_too():
    talk = Talk(Several.BY_PEER)
    talk.says("milan", {"m": 1})
    talk.arbiter.set_desired(
        talk.reflector, LAMP, "1", "milan", DesiredStatus({"n": 2}), lambda: None
    )
    talk.arbiter.writing(LAMP, "milan", {"n": 2})  # and its answer never came
    talk.arbiter.end("milan")
    assert talk.retracted[0].shown == {"m": 1, "n": 2}
