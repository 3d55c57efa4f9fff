"""Looking again and again: what is there ends it, and so does an API server that stays away."""

import msgspec
import pytest
import trio

from liqod.consumer.procedures.slicerequest import AWAY, offer, poll
from liqod.errors import NotFound, Unreachable
from liqod.resources import ResourceSlice


async def test_a_moment_without_the_api_server_is_waited_out(autojump_clock):
    answers = [None, Unreachable("away"), Unreachable("away"), None, "there"]

    async def look():
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert await poll(look) == "there"
    assert not answers


async def test_an_api_server_that_stays_away_is_told(autojump_clock):
    async def look():
        await trio.sleep(10)
        raise Unreachable("away")

    began = trio.current_time()
    with pytest.raises(Unreachable, match="away"):
        await poll(look)
    assert AWAY < trio.current_time() - began < AWAY + 15


async def test_what_is_refused_is_raised_at_once(autojump_clock):
    async def look():
        raise NotFound("no such thing")

    began = trio.current_time()
    with pytest.raises(NotFound):
        await poll(look)
    assert trio.current_time() == began


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            {
                "resources": {"pods": "20", "cpu": "2"},
                "storageClasses": [{"storageClassName": "fast", "default": True}],
                "conditions": [
                    {
                        "type": "Resources",
                        "status": "Accepted",
                        "message": "ResourceSlice resources accepted"
                        "; pods must fit the Pod Security level baseline",
                    }
                ],
            },
            "cpu 2, pods 20; storage classes fast; pods must fit the Pod Security level baseline",
        ),
        # As Liqo says it.
        (
            {
                "resources": {"cpu": "2"},
                "conditions": [
                    {
                        "type": "Resources",
                        "status": "Accepted",
                        "message": "ResourceSlice resources accepted",
                    }
                ],
            },
            "cpu 2; no storage, ingress or load-balancer classes",
        ),
    ],
)
def test_what_is_offered_is_told(status, told):
    assert offer(msgspec.convert({"status": status}, ResourceSlice)) == told
