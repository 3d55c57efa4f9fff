"""Translates error responses of the Kubernetes API into the project's error tree.

The response to a refused request is a ``metav1.Status``: its ``code`` gives the class of error; its
``message`` is for people and is kept word for word, since it ends up in conditions; but only a
readable length of it, for a peer's server writes it and it is kept with the refused object.
"""

from collections.abc import Mapping

import msgspec

from liqod.errors import (
    AlreadyExists,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    LiqodError,
    NotFound,
    Overloaded,
    ProtocolError,
    Unauthorized,
)

MAX_MESSAGE = 4096
"""Most characters of a message; one that names twenty fields of a pod has some two thousand."""
MAX_RETRY_AFTER = 60.0
"""Most seconds of a server's ``Retry-After`` that are waited."""


class TooLarge(ProtocolError):
    """A response, or one object of it, is larger than the limit for reading."""


class EvictionBlocked(Overloaded):
    """An eviction that a PodDisruptionBudget forbids now: a fast retry is useless."""


class Cause(msgspec.Struct, frozen=True):
    """One of the causes of a refusal (``metav1.StatusCause``)."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The subject of a refusal (``metav1.StatusDetails``)."""

    name: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] | None = None
    retry_after_seconds: int | None = None


class ApiStatus(msgspec.Struct, frozen=True):
    """The body of a refusal (``metav1.Status``), or the object of an ``ERROR`` watch event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


_STATUS = msgspec.json.Decoder(ApiStatus)


def read_status(body: bytes, code: int) -> ApiStatus:
    """The Status in ``body``; without one, a Status made from the HTTP code and the text."""
    try:
        status = _STATUS.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = body[:300].decode("utf-8", "replace").strip()
        return ApiStatus(code=code, message=text or f"the server answered {code}")
    message = status.message or status.reason or f"the server answered {code}"
    return msgspec.structs.replace(status, code=status.code or code, message=message)


def error_of(status: ApiStatus, headers: Mapping[str, str] | None = None) -> LiqodError:
    """The project's error for a refusal; its text is the server's message."""
    code, message = status.code, _brief(status.message)
    match code:
        case 401:
            return Unauthorized(message)
        case 403:
            return Forbidden(message)
        case 404:
            # It has details for an object, and none for a kind that is not served.
            return NotFound(message, served=status.details is not None)
        case 409 if status.reason == "AlreadyExists":
            return AlreadyExists(message)
        case 409:
            return Conflict(message)
        case 410:
            return Expired(message)
        case 400 | 405 | 413 | 415 | 422:
            return Invalid(message)
        case 429 if _budgets(status):
            message = _brief(" ".join((message, *_budgets(status))))
            return EvictionBlocked(message, status=code, retry_after=retry_after(status, headers))
        case 408 | 429:
            return Overloaded(message, status=code, retry_after=retry_after(status, headers))
        case _ if code >= 500:
            return Overloaded(message, status=code, retry_after=retry_after(status, headers))
    return ProtocolError(f"unexpected answer {code}: {message}")


def retry_after(status: ApiStatus, headers: Mapping[str, str] | None) -> float | None:
    """Seconds from the ``Retry-After`` header or the Status; dates are not supported."""
    text = (headers or {}).get("retry-after", "")
    if text.isascii() and text.isdigit():
        return min(float(text[:6]), MAX_RETRY_AFTER)
    seconds = status.details.retry_after_seconds if status.details else None
    return min(float(seconds), MAX_RETRY_AFTER) if seconds and seconds > 0 else None


def _brief(message: str) -> str:
    return message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 1]}…"


def _budgets(status: ApiStatus) -> list[str]:
    """The messages about disruption budgets: their names, and how many pods they need."""
    causes = status.details.causes if status.details else None
    return [cause.message for cause in causes or () if cause.reason == "DisruptionBudget"]
