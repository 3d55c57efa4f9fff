"""What a tenant namespace notes of a revocation: when it was, and what could not be taken back."""

import msgspec

from liqod.kube import times


class Living(msgspec.Struct, frozen=True):
    """What is still open: what cannot be taken back, and most of which ends by itself.

    Attributes:
        what: in a few words.
        until: when it ends, RFC 3339; empty where nobody here knows.
        dead: whether it is good for nothing in any case: for a certificate whose name nobody gets
            again, which no version before this one has noted.
    """

    what: str
    until: str = ""
    dead: bool = False

    @property
    def over(self) -> bool:
        """Whether it has ended by now."""
        try:
            return bool(self.until) and times.seconds(self.until) <= times.seconds(times.now())
        except ValueError:
            return False


class Mark(msgspec.Struct, frozen=True):
    """What a tenant namespace notes of a revocation, as JSON."""

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
    """Until when certificates live whose names could be given again, RFC 3339; empty for none."""
    open_ = [each.until for each in mark.lives if each.until and not (each.dead or each.over)]
    return max(open_, default="")
