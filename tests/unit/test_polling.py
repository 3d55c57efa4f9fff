"""Looking again and again: what is there ends it, and so does an API server that stays away."""

import pytest
import trio

from liqod.errors import ConfigError, NotFound, Unreachable
from liqod.runtime.polling import AWAY, poll_until


async def test_a_moment_without_the_api_server_is_waited_out(autojump_clock):
    answers = [None, Unreachable("away"), Unreachable("away"), None, "there"]

    async def look():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await poll_until(look) == "there"
    assert not answers


async def test_an_api_server_that_stays_away_is_told(autojump_clock):
    async def look():
        await trio.sleep(10)
        raise Unreachable("away")

    began = trio.current_time()
    with pytest.raises(Unreachable, match="away"):
        await poll_until(look)
    assert AWAY < trio.current_time() - began < AWAY + 15


async def test_what_is_refused_is_raised_at_once(autojump_clock):
    async def look():
        raise NotFound("no such thing")

    began = trio.current_time()
    with pytest.raises(NotFound):
        await poll_until(look)
    assert trio.current_time() == began


async def test_it_may_be_given_a_time_and_a_reason(autojump_clock):
    async def look():
        return None

    began = trio.current_time()
    with pytest.raises(ConfigError, match="it does not go"):
        await poll_until(look, within=5, failing=lambda: ConfigError("it does not go"))
    assert 5 < trio.current_time() - began < 6.5
