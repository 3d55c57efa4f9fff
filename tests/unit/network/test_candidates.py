"""Messages between candidates cannot be forged, changed, or repeated to any effect."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liqod.network.failover import candidatemessages, responder
from liqod.network.failover.candidatemessages import Answer, Question, encoded, key_of, read
from liqod.network.failover.fence import Fence
from liqod.network.failover.responder import ORDINARY, Responder, ResponderTimings
from liqod.network.orders.candidacy import Claim

KEY = key_of(b"s" * 32, "rome")
NUMBERS = st.integers(0, (1 << 64) - 1)
TEXT = st.text(max_size=40)
CLAIM = Claim("a", 3, "77")


@given(
    st.builds(Question, TEXT, NUMBERS, NUMBERS, NUMBERS, TEXT)
    | st.builds(Answer, TEXT, NUMBERS, NUMBERS, NUMBERS, TEXT)
)
def test_what_is_said_is_read(message: Question | Answer):
    assert read(encoded(message, KEY), KEY) == message


@given(st.binary(max_size=600))
def test_nonsense_is_nothing(data: bytes):
    assert read(data, KEY) is None


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_nobody_without_the_key_says_anything(at: int, bits: int):
    said = bytearray(encoded(Answer("a", 7, 8, 3, "77"), KEY))
    assert read(bytes(said), key_of(b"t" * 32, "rome")) is None
    assert read(bytes(said), key_of(b"s" * 32, "milan")) is None
    said[at % len(said)] ^= bits
    assert read(bytes(said), KEY) is None


def test_a_name_that_is_too_long_is_refused():
    longest = Question("n" * candidatemessages.NAME, 1, 0, 0, "a" * candidatemessages.SAID)
    assert read(encoded(longest, KEY), KEY) == longest
    with pytest.raises(ValueError, match="253 bytes"):
        encoded(Question("n" * 254, 1, 0, 0), KEY)


@contextmanager
def answering(
    timings: ResponderTimings = ORDINARY,
) -> Iterator[tuple[Responder, socket.socket]]:
    """A responder of `a`, and a socket that asks it."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    listening.bind(("127.0.0.1", 0))
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.connect(listening.getsockname())
    asking.settimeout(1.0)
    answers = Responder(listening, KEY, "a", timings=timings)
    answers.start()
    try:
        yield answers, asking
    finally:
        answers.close()
        asking.close()


def ask(asking: socket.socket, number: int, had: int = 0, name: str = "b") -> Answer:
    asking.send(encoded(Question(name, number, had, 3), KEY))
    found = read(asking.recv(1000), KEY)
    assert isinstance(found, Answer)
    assert found.question == number
    return found


def silent(asking: socket.socket, data: bytes) -> bool:
    asking.settimeout(0.1)
    asking.send(data)
    try:
        asking.recv(1000)
    except TimeoutError:
        return True
    return False


def test_a_question_counts_when_it_confirms_an_answer():
    with answering() as (answers, asking):
        answers.publish(CLAIM, at_work=True, epoch=3)
        first = ask(asking, 1)
        # Anyone who has recorded a question can send it again; that makes nobody's company.
        assert first.name == "a"
        assert first.version == ""
        assert answers.standbys() == {}
        second = ask(asking, 2, first.number)
        assert second.version == "77"
        (known,) = answers.standbys().values()
        assert known.acknowledged <= known.first <= known.last_seen
        # Under another version it begins anew.
        answers.publish(Claim("a", 3, "78"), at_work=True, epoch=3)
        assert answers.standbys() == {}
        assert ask(asking, 3, second.number).version == "78"


def test_a_question_that_is_sent_again_later_counts_no_more():
    with answering(ResponderTimings(fresh=0.05)) as (answers, asking):
        answers.publish(CLAIM, at_work=True, epoch=3)
        recorded = Question("b", 2, ask(asking, 1).number, 3)
        time.sleep(0.1)
        asking.send(encoded(recorded, KEY))
        found = read(asking.recv(1000), KEY)
        assert isinstance(found, Answer)
        assert found.version == ""
        assert answers.standbys() == {}


def test_one_that_is_fenced_does_not_say_that_it_works():
    with answering() as (answers, asking):
        answers.publish(CLAIM, at_work=False, epoch=3)
        assert ask(asking, 1).name == ""


def test_a_loop_that_hangs_is_not_spoken_for():
    with answering(ResponderTimings(hold=0.05)) as (answers, asking):
        answers.publish(CLAIM, at_work=True, epoch=3)
        time.sleep(0.1)
        assert silent(asking, encoded(Question("b", 1, 0, 3), KEY))


def test_forged_questions_are_not_answered():
    with answering() as (answers, asking):
        answers.publish(CLAIM, at_work=True, epoch=3)
        assert silent(asking, b"x" * 80)
        forged = encoded(Question("b", 1, 0, 99), key_of(b"?" * 32, "rome"))
        assert silent(asking, forged)
        assert silent(asking, encoded(Question("a", 1, 0, 3), KEY))  # its own, sent back
        assert silent(asking, encoded(Answer("b", 1, 0, 99, "9"), KEY))
        assert answers.newest == 3


def test_a_flood_costs_a_bounded_share(monkeypatch: pytest.MonkeyPatch):
    taken: list[bytes] = []

    def note(data: bytes, key: bytes) -> None:
        taken.append(data)

    with answering() as (_, asking):
        monkeypatch.setattr(candidatemessages, "read", note)
        began = time.monotonic()
        while time.monotonic() - began < 0.5:
            asking.send(b"x" * 100)
    most = (time.monotonic() - began) / responder.FLOOD * responder.BATCH
    assert len(taken) <= most + 2 * responder.BATCH


def test_a_fence_is_one_transaction():
    fence = Fence("rome")
    assert 1 <= fence.mark <= 255
    assert fence.table != Fence("milan").table
    assert "elements" not in fence.text(0.0)
    # A timeout of 0 would mean for ever.
    assert "timeout 0ms" not in fence.text(0.0001)
    assert f"{fence.mark} timeout 12000ms" in fence.text(12.0)
    assert fence.text(None).endswith(f"delete table {fence.table}\n")
