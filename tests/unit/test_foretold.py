"""Specs of sources that are being written, for their replicas at the same time."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from liqod.apimachinery.meta import ObjectMeta, Partial
from liqod.peers.foretold import LONGEST, Foretold, Source
from liqod.resources.exchanges import SERVICE_EXCHANGES

SHOP = (SERVICE_EXCHANGES, "shop.milan")
BEFORE = ObjectMeta(uid="u", generation=4)
SPEC = {"exports": {"web": "new"}}
LATER = {"exports": {"web": "newer"}}


def written(generation):
    return Partial(metadata=ObjectMeta(uid="u", generation=generation))


@pytest.fixture
def told():
    made = Foretold()
    followed: list[Source] = []
    with made.following(followed.append):
        yield made, followed


def test_a_spec_is_foretold_while_it_is_written_and_until_the_source_has_it(told):
    foretold, followed = told
    with foretold.writing(SHOP, SPEC, BEFORE) as writing:
        assert followed == [SHOP]
        assert foretold.spec(SHOP, "u", 4) == SPEC
        assert foretold.spec((SERVICE_EXCHANGES, "api.milan"), "u", 4) is None
        writing.done(written(5))
    assert foretold.spec(SHOP, "u", 4) == SPEC  # its watch is behind
    assert foretold.spec(SHOP, "u", 5) is None
    assert foretold.spec(SHOP, "u", 4) is None  # for good
    assert followed == [SHOP]  # the change of the source itself is followed anyway


def test_a_spec_that_is_not_written_is_forgotten_and_the_source_followed_again(told):
    foretold, followed = told
    with pytest.raises(OSError, match="refused"), foretold.writing(SHOP, SPEC, BEFORE):
        raise OSError("refused")
    assert foretold.spec(SHOP, "u", 4) is None
    assert followed == [SHOP, SHOP]


@pytest.mark.parametrize(("uid", "generation"), [("u", 5), ("u", 3), ("v", 4)])
def test_a_source_that_is_another_now_says_itself_what_its_replica_has(told, uid, generation):
    foretold, _ = told
    with foretold.writing(SHOP, SPEC, BEFORE):
        assert foretold.spec(SHOP, uid, generation) is None


def test_what_another_has_changed_in_between_is_not_shown_before_what_was_written_last(told):
    foretold, _ = told
    with foretold.writing(SHOP, SPEC, BEFORE) as writing:
        writing.done(written(6))
    assert foretold.spec(SHOP, "u", 5) == SPEC
    assert foretold.spec(SHOP, "u", 6) is None


def test_a_write_that_changed_nothing_leaves_nothing(told):
    foretold, _ = told
    with foretold.writing(SHOP, SPEC, BEFORE) as writing:
        writing.done(written(4))
    assert foretold.spec(SHOP, "u", 4) is None


def test_of_two_writes_the_later_one_counts(told):
    foretold, followed = told
    with foretold.writing(SHOP, SPEC, BEFORE):  # which is not done
        with foretold.writing(SHOP, LATER, BEFORE) as writing:
            writing.done(written(5))
        followed.clear()
    assert foretold.spec(SHOP, "u", 4) == LATER
    assert followed == []


def test_without_a_follower_nothing_is_kept():
    foretold = Foretold()
    followed: list[Source] = []
    with foretold.writing(SHOP, SPEC, BEFORE) as writing:
        writing.done(written(5))
    assert foretold.spec(SHOP, "u", 4) is None
    with foretold.following(followed.append), foretold.writing(SHOP, SPEC, BEFORE) as writing:
        writing.done(written(5))
    assert foretold.spec(SHOP, "u", 4) is None
    assert followed == [SHOP]


async def test_a_write_begins_once_its_follower_has_read_it(told, autojump_clock):
    foretold, _ = told
    with foretold.writing(SHOP, SPEC, BEFORE) as writing:
        assert not writing.followed.is_set()
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(writing.follower)
            await wait_all_tasks_blocked()
            assert foretold.spec(SHOP, "u", 4) == SPEC
        assert trio.current_time() == began


async def test_a_write_waits_for_no_follower_that_is_busy_or_absent(told, autojump_clock):
    foretold, _ = told
    began = trio.current_time()
    with Foretold().writing(SHOP, SPEC, BEFORE) as writing:
        await writing.follower()
    assert trio.current_time() == began
    with foretold.writing(SHOP, SPEC, BEFORE) as writing:
        await writing.follower()
    assert trio.current_time() == began + LONGEST
