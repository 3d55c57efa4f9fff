"""The names of the set in CoreDNS's configuration: what serves them, and what would. Pure.

CoreDNS serves the names of ServiceImports from 1.12.2 on, by the option ``multicluster`` of its
plugin ``kubernetes``, which has to have the zone as well.
"""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from liqod.model.clusterset import corefiletext

ZONE: Final = "clusterset.local"
OPTION: Final = "multicluster"
LEAST: Final = (1, 12, 2)
"""The first CoreDNS whose plugin ``kubernetes`` has the option."""
PLUGIN: Final = "kubernetes"
_HOME: Final = "cluster.local"
REVERSE: Final = ".arpa"
_VERSION: Final = re.compile(r":v?(\d+)\.(\d+)\.(\d+)")


class Names(msgspec.Struct, frozen=True):
    """The treatment of the names of the set by a Corefile.

    Attributes:
        directive: the directive that is given the zone, such as ``multicluster``, which is the
            option of ``kubernetes``, or ``forward``; empty where none is.
        zones: the zones of the plugin ``kubernetes``; empty where it has none of its own.
    """

    directive: str = ""
    zones: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The first line of the plugin as it is."""
        return " ".join((PLUGIN, *self.zones))

    @property
    def home(self) -> str:
        """The cluster's own zone."""
        own = (each for each in self.zones if not each.endswith(REVERSE) and not is_zone(each))
        return next(own, _HOME).rstrip(".")

    @property
    def wanted(self) -> str:
        """The same with the zone behind the cluster's own, which has to stay the first."""
        zones = [each for each in self.zones or (_HOME,) if not is_zone(each)]
        own = [each for each in zones if not each.endswith(REVERSE)]
        reverse = [each for each in zones if each.endswith(REVERSE)]
        return " ".join((PLUGIN, *own, ZONE, *reverse))


def read(corefile: str) -> Names:
    """The treatment of the names of the set by a Corefile."""
    found: list[Names] = []
    inside = False
    others: list[str] = []
    for words, depth, opens in _lines(corefile):
        if words[0] == PLUGIN:
            found.append(Names("", tuple(words[1:])))
            inside = opens
        elif inside and depth == _INNER:
            if words[0] == OPTION and any(map(is_zone, words[1:])):
                found[-1] = Names(OPTION, found[-1].zones)
        elif any(ZONE in each.lower() for each in words):
            others.append(_named(words[0], depth))
        inside &= words[0] == PLUGIN or depth >= _INNER
    serving = [each for each in found if each.directive and any(map(is_zone, each.zones))]
    if serving:
        return serving[0]
    return Names(others[0] if others else "", found[0].zones if found else ())


_INNER: Final = 2
"""Blocks around an option of a plugin: the server's and the plugin's."""


def _lines(corefile: str) -> Iterator[tuple[list[str], int, bool]]:
    """The words of each line, the blocks around it, and True where it opens another."""
    depth = 0
    for line in corefiletext.lines(list(corefiletext.words(corefile))):
        found = [word.text for word in line]
        opens = found[-1] == corefiletext.OPENS
        if found == [corefiletext.CLOSES]:
            depth -= 1
        else:
            kept = [each.rstrip(",") for each in found if each != corefiletext.OPENS]
            if kept:
                yield kept, depth, opens
        depth += opens


def _named(word: str, depth: int) -> str:
    """The directive as it is told apart from the option of the same name."""
    if not depth:
        return "server block"
    return "multicluster plugin" if word == OPTION else word


def is_zone(word: str) -> bool:
    """True for the zone of the set, however it is written."""
    return word.rstrip(".").lower() == ZONE


def version_of(image: str) -> tuple[int, ...]:
    """The version that the tag of an image of CoreDNS names; empty where it names none."""
    found = _VERSION.search(image.partition("@")[0])
    return tuple(map(int, found.groups())) if found else ()
