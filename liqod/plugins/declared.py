"""The rights, quotas and bounds that the built-in reflectors declare, as one list.

A module of :mod:`liqod.plugins.reflectors` is all that a built-in kind takes: it is found by being
there.
"""

import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from typing import Final

from liqod.apimachinery.kinds import Kind
from liqod.plugins import reflectors as folder
from liqod.plugins.contracts import Reflector
from liqod.plugins.grants import READ, Grant, OptIn, Right

ALL: Final = ("create", "delete", "get", "list", "patch", "update", "watch")
"""Verbs that a consumer has on the objects it writes: Liqo's."""


def modules() -> tuple[tuple[str, str], ...]:
    """Names of the built-in reflectors with their modules, by name."""
    found = pkgutil.iter_modules(folder.__path__)
    return tuple(sorted((each.name, f"{folder.__name__}.{each.name}") for each in found))


@cache
def reflectors() -> tuple[Reflector, ...]:
    """The built-in reflectors, by name."""
    return tuple(
        each for _, module in modules() for each in import_module(module).liqod_reflectors()
    )


def rights(found: Iterable[Reflector] | None = None) -> list[Right]:
    """Rights of the daemon in its own cluster, by group and resource."""
    known = reflectors() if found is None else found
    made = [right for each in known for right in each.rights]
    return sorted(made, key=lambda right: (right.group, right.resources))


def grants(found: Iterable[Reflector] | None = None) -> Iterator[tuple[Reflector, Grant]]:
    """The reflectors for which a provider grants something, and what."""
    for each in reflectors() if found is None else found:
        if each.grant is not None:
            yield each, each.grant


def opt_ins() -> list[tuple[OptIn, tuple[Kind, ...]]]:
    """The consents that a provider can give, and the kinds that consumers write by each."""
    return [
        (grant.opt_in, tuple(one.kind for one in each.written))
        for each, grant in grants()
        if grant.opt_in is not None
    ]


def opted(settings: Iterable[str]) -> list[OptIn]:
    """The consents that are given by these settings of ``[guests]``."""
    on = frozenset(settings)
    return [each for each, _ in opt_ins() if each.setting in on]


def object_quota() -> dict[str, str]:
    """Default bounds of the objects that a consumer may make in all its namespaces."""
    return {key: bound for _, grant in grants() for key, bound in grant.quota.items()}


def granted(opt_in: OptIn | None = None) -> dict[str, list[str]]:
    """Plurals that consumers may write, by group: always, or by a consent alone."""
    return by_group(
        one.kind for each, grant in grants() if grant.opt_in == opt_in for one in each.written
    )


def held() -> dict[str, list[str]]:
    """Plurals by group of what consumers write themselves beside ShadowPods."""
    return by_group(one.kind for each, grant in grants() if not grant.pods for one in each.written)


def by_group(kinds: Iterable[Kind]) -> dict[str, list[str]]:
    """Plurals of kinds by their group, each once, in order."""
    known = set(kinds)
    return {
        group: sorted(each.plural for each in known if each.group == group)
        for group in sorted({each.group for each in known})
    }


def needed(reflector: Reflector) -> frozenset[tuple[str, str, str]]:
    """Groups, resources and verbs that the engine needs for a reflector's kinds in its own
    cluster: follows its kind and those that it reads, makes its local ones, writes the status."""
    followed = {reflector.kind, *(each.kind for each in reflector.reads), *reflector.local}
    wanted = {(each, verb) for each in followed for verb in READ}
    wanted |= {(each, verb) for each in reflector.local for verb in ("create", "patch", "delete")}
    made = {(each.group, each.plural, verb) for each, verb in wanted}
    if reflector.incoming is not None:
        made.add((reflector.kind.group, f"{reflector.kind.plural}/status", "patch"))
    return frozenset(made)
