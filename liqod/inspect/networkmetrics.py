"""Metrics of joined networks for ``/metrics``, read from the facts of their components."""

import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from liqod.inspect import roomrows
from liqod.inspect.family import Sample

if TYPE_CHECKING:
    from liqod.inspect.inspector import Inspector
    from liqod.model.view.networkfacts import NetworkFacts


def of(
    read: Callable[["NetworkFacts"], float | None], *, driver: bool = False
) -> Callable[["Inspector"], Iterable[Sample]]:
    """A figure of each joined network that has one; with the tunnel's backend where asked for."""

    def each(inspector: "Inspector") -> Iterator[Sample]:
        for peer, facts in roomrows.networks(inspector.components, fresh=False).items():
            value = read(facts)
            if value is not None and facts.backend:
                yield ((facts.backend, peer) if driver else (peer,)), value

    return each


def heard(facts: "NetworkFacts") -> float | None:
    """When a probe last came back, Unix time."""
    return None if facts.echo is None else round(time.time() - facts.echo, 1)


def reached(facts: "NetworkFacts") -> float | None:
    """1 if a packet came back from a pod's address, else 0; None where none was sent."""
    return None if facts.pods is None else float(not facts.pods.error)


def dropped(inspector: "Inspector") -> Iterator[Sample]:
    """Packets refused, by reason."""
    for peer, facts in roomrows.networks(inspector.components, fresh=False).items():
        for reason in ("spoofed", "strangers", "flooded"):
            if facts.backend:
                yield (peer, reason), getattr(facts, reason)


def both(
    *reads: Callable[["Inspector"], Iterable[Sample]],
) -> Callable[["Inspector"], Iterable[Sample]]:
    """The samples of several."""
    return lambda inspector: chain.from_iterable(read(inspector) for read in reads)
