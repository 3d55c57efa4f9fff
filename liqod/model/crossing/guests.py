"""Counts the guests' pods that run in this cluster, by consumer and namespace. Pure."""

from collections.abc import Iterable

import msgspec

from liqod.model.view.snapshot import GuestSummary


class GuestRow(msgspec.Struct, frozen=True):
    """The pods of one consumer in one namespace of this cluster.

    Attributes:
        consumer: the consumer's id.
        namespace: the namespace in this cluster.
        pods: how many there are.
        ready: how many of them are Ready.
        phases: how many are in each phase.
        why: the reason why the first pod that is not ready waits, with its name; empty for none.
    """

    consumer: str
    namespace: str
    pods: int
    ready: int
    phases: dict[str, int]
    why: str = ""


def guest_rows(guests: Iterable[GuestSummary]) -> tuple[GuestRow, ...]:
    """The guests by consumer and namespace, sorted."""
    groups: dict[tuple[str, str], list[GuestSummary]] = {}
    for guest in guests:
        groups.setdefault((guest.consumer, guest.namespace), []).append(guest)
    return tuple(
        _row(consumer, namespace, found) for (consumer, namespace), found in sorted(groups.items())
    )


def _row(consumer: str, namespace: str, found: list[GuestSummary]) -> GuestRow:
    phases: dict[str, int] = {}
    for guest in found:
        phases[guest.phase] = phases.get(guest.phase, 0) + 1
    late = sorted((each.name, each.reason) for each in found if each.reason and not each.ready)
    why = f"{late[0][0]}: {late[0][1]}" if late else ""
    ready = sum(each.ready for each in found)
    return GuestRow(consumer, namespace, len(found), ready, dict(sorted(phases.items())), why)
