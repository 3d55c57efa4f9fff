"""The record of a revocation on a tenant namespace: its time, and the rights that remain."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from liqod.apimachinery import labels
from liqod.kube import times

MOST_KEYS: Final = 64
"""Keys of one peer that are noted, the latest ones."""


class Living(msgspec.Struct, frozen=True):
    """A right or object that cannot be revoked; most of these end by themselves.

    Attributes:
        what: its name in a few words.
        until: time of its end, RFC 3339; empty where that is unknown.
        dead: whether it is useless in any case: a certificate whose name is never given again,
            which no version before this one has noted.
    """

    what: str
    until: str = ""
    dead: bool = False

    @property
    def over(self) -> bool:
        """True if it has ended by now."""
        try:
            return bool(self.until) and times.seconds(self.until) <= times.seconds(times.now())
        except ValueError:
            return False


class Mark(msgspec.Struct, frozen=True):
    """The record of a revocation on a tenant namespace, as JSON."""

    at: str
    lives: tuple[Living, ...] = ()


def marked(annotations: dict[str, str], key: str) -> Mark | None:
    """The mark of a tenant namespace; an unreadable one still is a mark."""
    text = annotations.get(key)
    if text is None:
        return None
    try:
        return msgspec.json.decode(text, type=Mark)
    except msgspec.MsgspecError:
        return Mark(at=text)


def living(mark: Mark) -> str:
    """The end of certificates whose names could be given again, RFC 3339; empty for none."""
    open_ = [each.until for each in mark.lives if each.until and not (each.dead or each.over)]
    return max(open_, default="")


def revoked_keys(marks: Mapping[str, str]) -> frozenset[str]:
    """The keys of a consumer that only an operator accepts again, under any id. Pure.

    Args:
        marks: annotations of its tenant namespace.
    """
    noted = {*marks.get(labels.REVOKED_KEYS, "").split()}
    now = {marks.get(labels.ACCEPTED_KEY, "")}
    found = noted | now if labels.REVOKED_TENANT in marks else noted - now
    return frozenset(found - {""})


def revoked_provider_keys(marks: Mapping[str, str]) -> frozenset[str]:
    """The keys of a provider that gets no request by itself, under any id. Pure.

    Args:
        marks: annotations of its tenant namespace.
    """
    return frozenset(marks.get(labels.REVOKED_PROVIDER_KEYS, "").split())


def noted_keys(marks: Mapping[str, str], role: str, keys: Iterable[str]) -> dict[str, str]:
    """The annotation that notes revoked keys beside those of before; empty where nothing changes.

    Args:
        marks: annotations of the tenant namespace.
        role: ``consumer`` or ``provider``.
        keys: SHA-256 of each, hexadecimal.
    """
    name = labels.REVOKED_KEYS if role == "consumer" else labels.REVOKED_PROVIDER_KEYS
    before = marks.get(name, "").split()
    more = sorted({*keys} - {*before, ""})
    return {name: " ".join((before + more)[-MOST_KEYS:])} if more else {}
