"""Reads and writes times in the format of Kubernetes: RFC 3339, in UTC."""

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


def now() -> str:
    """The current time to the second, as ``metav1.Time``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def precise() -> str:
    """The current time to the microsecond, as the ``metav1.MicroTime`` of Leases."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def of(seconds: float) -> str:
    """A Unix time to the second, as ``metav1.Time``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds(stamp: str) -> float:
    """The Unix time of an RFC 3339 time, fractions of a second included.

    Raises:
        ValueError: it is no time.
    """
    return datetime.fromisoformat(stamp).timestamp()


def age(stamp: str) -> float:
    """Seconds since a time, 0 for one in the future: clocks differ.

    Raises:
        ValueError: it is no time.
        TypeError: it has no zone.
    """
    return max((datetime.now(UTC) - datetime.fromisoformat(stamp)).total_seconds(), 0.0)


def date_of(header: str) -> float | None:
    """The Unix time of a ``Date`` header; None for an invalid one."""
    try:
        return parsedate_to_datetime(header).timestamp()
    except (ValueError, OverflowError):
        return None
