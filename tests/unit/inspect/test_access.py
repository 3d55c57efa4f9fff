"""Clients over TCP: whose token it is, and what that user may do, as the API server says."""

from typing import Any

import pytest
import trio

from liqod.errors import Unreachable
from liqod.inspect import access
from liqod.inspect.access import Guest, Reviewer


class ApiServer:
    """Reviews tokens of two users."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.down = False
        self.audiences = ["liqod"]

    async def create_full(self, kind: Any, body: dict[str, Any]) -> dict[str, Any]:
        if self.down:
            raise Unreachable("it does not answer")
        self.asked.append(kind.name)
        spec = body["spec"]
        if kind.name == "TokenReview":
            assert spec["audiences"] == ["liqod"]
            known = spec["token"] in ("viewer", "operator", "nobody")
            user = {"username": spec["token"], "groups": ["ops"], "uid": "1"}
            return {"status": {"authenticated": known, "user": user, "audiences": self.audiences}}
        attributes = spec["resourceAttributes"]
        assert (attributes["group"], attributes["resource"]) == ("core.liqo.io", "foreignclusters")
        assert spec["groups"] == ["ops"]
        allowed = {"viewer": ["get"], "operator": ["get", "update"]}.get(spec["user"], [])
        return {"status": {"allowed": attributes["verb"] in allowed}}


def headers(token: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"x"), (b"Authorization", f"Bearer {token}".encode())]


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("viewer", Guest("viewer", acting=False)),
        ("operator", Guest("operator", acting=True)),
        ("nobody", None),
        ("forged", None),
    ],
)
async def test_rights_are_those_of_the_user(token: str, expected: Guest | None):
    reviewer = Reviewer(ApiServer())  # type: ignore[arg-type]
    assert await access.remote(reviewer, headers(token)) == expected


async def test_a_token_of_another_audience_is_not_taken():
    server = ApiServer()
    server.audiences = ["https://kubernetes.default.svc"]
    assert await access.remote(Reviewer(server), headers("operator")) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [(b"authorization", b"Basic dXNlcjpwYXNz")],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"Bearer " + b"x" * 20_000)],
        [(b"authorization", b"Bearer \xff\xfe")],
    ],
    ids=["none", "basic", "empty", "huge", "binary"],
)
async def test_what_is_no_token_is_not_even_asked_about(lines: list[tuple[bytes, bytes]]):
    server = ApiServer()
    assert await access.remote(Reviewer(server), lines) is None  # type: ignore[arg-type]
    assert server.asked == []


async def test_answers_are_kept_for_a_while_and_refusals_too(autojump_clock):
    server = ApiServer()
    reviewer = Reviewer(server)  # type: ignore[arg-type]
    for _ in range(5):
        await access.remote(reviewer, headers("forged"))
        await access.remote(reviewer, headers("viewer"))
    assert server.asked.count("TokenReview") == 2
    await trio.sleep(access.KEPT)
    await access.remote(reviewer, headers("viewer"))
    assert server.asked.count("TokenReview") == 3


async def test_nobody_comes_in_while_the_api_server_is_down():
    server = ApiServer()
    server.down = True
    assert await access.remote(Reviewer(server), headers("operator")) is None  # type: ignore[arg-type]
