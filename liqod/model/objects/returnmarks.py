"""The marks of controllers whose pods a peer could not start: where not to send the next ones.

Pure. The marks of a namespace are JSON in an annotation of its NamespaceOffloading, which every
replica of the webhook follows: they outlive each daemon, and go with the offloading. A mark is in
force for a time that doubles with each return from the same peer; it is remembered for as long
again, and not while its controller or its peer is gone.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from liqod.apimachinery import labels
from liqod.errors import ConfigError
from liqod.model.objects.quantities import parse_all

LONGEST: Final = 21600.0
"""Seconds for which a mark is in force at the most."""
MOST: Final = 100
"""Marks that one namespace keeps; of more, those that end first are dropped."""
TEXT: Final = 256
"""Characters of a peer's words that a mark keeps."""


TIMES: Final = 10**6
"""Returns in a row that are believed."""


class ReturnMark(msgspec.Struct, frozen=True):
    """The word that pods of one controller have returned from one peer.

    Attributes:
        owner: the UID of the controller.
        kind: its kind.
        name: its name.
        cluster: the id of the peer.
        cause: why the pods could not start there, one word.
        message: the peer's own words.
        since: time of the return, RFC 3339.
        until: time until which no pod of the controller is sent there.
        times: returns in a row.
        asked: requests of the pod, where the peer said then that no node has as much free.
        due: the end that the mark had at first, where it was lifted before; else empty.
    """

    owner: str
    kind: str
    name: str
    cluster: str
    cause: str
    message: str
    since: str
    until: str
    times: int = 1
    asked: dict[str, str] = {}
    due: str = ""

    @property
    def forgotten(self) -> str:
        """The time when the mark is dropped: it counts in the next one until then."""
        start, end = datetime.fromisoformat(self.since), datetime.fromisoformat(self._due)
        return _text(end + (end - start))

    @property
    def is_sound(self) -> bool:
        """True if its numbers can be those of a mark; who may write there may write any."""
        start, end = datetime.fromisoformat(self.since), datetime.fromisoformat(self.until)
        due = datetime.fromisoformat(self._due)
        parse_all(self.asked)
        in_order = start <= end <= due and (due - start).total_seconds() <= LONGEST
        return in_order and 1 <= self.times <= TIMES

    @property
    def _due(self) -> str:
        return self.due or self.until

    def holds(self, now: str) -> bool:
        """True if no pod of the controller is sent to the peer at that time."""
        return now < self.until


_MARKS = msgspec.json.Decoder(tuple[ReturnMark, ...])


def read(annotations: Mapping[str, str] | None) -> tuple[ReturnMark, ...]:
    """The marks in the annotations of a NamespaceOffloading; what is none does not count."""
    try:
        found = _MARKS.decode((annotations or {}).get(labels.RETURNED) or "[]")
        return tuple(each for each in found if each.is_sound and each.forgotten)
    except (msgspec.DecodeError, ConfigError, ValueError, TypeError, OverflowError):
        return ()


def render(marks: Iterable[ReturnMark]) -> str | None:
    """The annotation; None where there are no marks."""
    kept = sorted(marks, key=lambda each: each.until)[-MOST:]
    return msgspec.json.encode(kept).decode() if kept else None


def find(marks: Iterable[ReturnMark], owner: str, cluster: str) -> ReturnMark | None:
    """The mark of a controller and a peer; None where there is none."""
    return next((each for each in marks if (each.owner, each.cluster) == (owner, cluster)), None)


def added(marks: Iterable[ReturnMark], new: ReturnMark, first: float) -> tuple[ReturnMark, ...]:
    """The marks with a new one, in place of the one before it.

    Args:
        marks: those before.
        new: the new one, of which ``until`` and ``times`` are not read.
        first: seconds for which the first mark is in force.
    """
    before = find(marks, new.owner, new.cluster)
    times = 1 if before is None or before.forgotten <= new.since else min(before.times + 1, TIMES)
    seconds = min(first * 2.0 ** min(times - 1, 30), LONGEST)
    until = _after(new.since, seconds)
    made = msgspec.structs.replace(new, times=times, until=until, message=new.message[:TEXT])
    return (*(each for each in marks if each is not before), made)


def kept(
    marks: Iterable[ReturnMark], now: str, owners: Collection[str], clusters: Collection[str]
) -> tuple[ReturnMark, ...]:
    """The marks that still count.

    Args:
        marks: all.
        now: the time, RFC 3339.
        owners: UIDs of the controllers that have pods.
        clusters: ids of the peers that the namespace is offloaded to.
    """
    return tuple(
        each
        for each in marks
        if now < each.forgotten and each.owner in owners and each.cluster in clusters
    )


def lifted(
    marks: Iterable[ReturnMark], now: str, has_room: Callable[[ReturnMark], bool]
) -> tuple[ReturnMark, ...]:
    """The marks, without force where the peer has room by now. They count in the next one.

    Args:
        marks: all.
        now: the time, RFC 3339.
        has_room: whether the peer says that a node has as much free as a mark's pod asked for.
    """
    return tuple(
        _until(each, now)
        if each.asked and each.since <= now and each.holds(now) and has_room(each)
        else each
        for each in marks
    )


def shortened(
    marks: Iterable[ReturnMark], now: str, clusters: Collection[str], first: float
) -> tuple[ReturnMark, ...]:
    """The marks, where pods may go nowhere else: none of a controller that all places are marked of
    outlasts a first one. To wait there is no worse than to wait here. They count in the next one.

    Args:
        marks: all.
        now: the time, RFC 3339.
        clusters: ids of all places that the pods have.
        first: seconds for which the first mark is in force.
    """
    known = tuple(marks)
    places = {
        owner: {each.cluster for each in known if each.owner == owner and each.holds(now)}
        for owner in {each.owner for each in known}
    }
    return tuple(
        _until(each, max(now, _after(each.since, first)))
        if places[each.owner] >= set(clusters) and each.since <= now
        else each
        for each in known
    )


def _until(mark: ReturnMark, end: str) -> ReturnMark:
    """A mark that ends at a time at the latest."""
    if end >= mark.until:
        return mark
    return msgspec.structs.replace(mark, until=end, due=mark.due or mark.until)


def in_force(marks: Iterable[ReturnMark], now: str) -> tuple[ReturnMark, ...]:
    """The marks by which pods are not sent to a peer at that time."""
    return tuple(each for each in marks if each.holds(now))


def avoided(pod: Mapping[str, Any], marks: Iterable[ReturnMark]) -> dict[str, str]:
    """The peers that could not start pods of a pod's controller, by their ids, and why."""
    owners = (pod.get("metadata") or {}).get("ownerReferences") or ()
    uids = {each.get("uid") for each in owners if each.get("controller")}
    return {each.cluster: sentence(each) for each in marks if each.owner in uids}


def sentence(mark: ReturnMark) -> str:
    """The reason of a mark, and until when it is in force."""
    return (
        f"{mark.cluster} could not start a pod of {mark.kind} {mark.name} ({mark.cause}), and is "
        f"tried again after {end(mark)}"
    )


def end(mark: ReturnMark) -> str:
    """The time when a mark ends, and what may end it before."""
    asked = {name: amount for name, amount in sorted(mark.asked.items()) if name != "pods"}
    shown = ", ".join(f"{name} {amount}" for name, amount in asked.items()) or "room"
    sooner = f", or soon after it says that a node has {shown} free" if mark.asked else ""
    return f"{mark.until}{sooner}"


def _after(start: str, seconds: float) -> str:
    return _text(datetime.fromisoformat(start) + timedelta(seconds=seconds))


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
