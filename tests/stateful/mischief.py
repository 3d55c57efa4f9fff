"""Loses or garbles the answers of an API server after it did as it was asked."""

from collections.abc import Callable, Coroutine
from typing import Any

from liqod.kube.http.httpserver import Drop, HttpRequest, HttpResponse

Handle = Callable[[HttpRequest], Coroutine[Any, Any, HttpResponse]]

NONSENSE = b'{"kind":"List","apiVersion":"v1","metadata":{},"items":[{"metadata":7},[]]}'
VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Mischief:
    """Answers that are lost or spoilt on the way.

    Attributes:
        lose: how many answers to requests of each verb never arrive.
        garble: how many arrive as something else.
        nonsense: what arrives then.
    """

    def __init__(self) -> None:
        self.lose: dict[str, int] = {}
        self.garble: dict[str, int] = {}
        self.nonsense = NONSENSE

    def clear(self) -> None:
        """Have everything arrive."""
        self.lose.clear()
        self.garble.clear()
        self.nonsense = NONSENSE

    def around(self, handle: Handle) -> Handle:
        """A handler whose answers this spoils."""

        async def spoilt(request: HttpRequest) -> HttpResponse:
            verb = "watch" if request.one("watch") else VERBS.get(request.method, "get")
            response = await handle(request)
            if _due(self.lose, verb):
                raise Drop
            if _due(self.garble, verb):
                return HttpResponse(200, self.nonsense, {"content-type": "application/json"})
            return response

        return spoilt


def _due(left: dict[str, int], verb: str) -> bool:
    if left.get(verb, 0) <= 0:
        return False
    left[verb] -= 1
    return True
