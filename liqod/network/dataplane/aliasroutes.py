"""The routes to peers' aliases in the table that all share, and the rule that leads there. Pure."""

from collections.abc import Iterator, Mapping

from liqod.network.dataplane import names
from liqod.network.dataplane.families import Family, families, family_of
from liqod.network.dataplane.values import Route, Rule


def routes(
    aliases: Mapping[str, int], link: str, via: Mapping[Family, str], metrics: tuple[int, int]
) -> Iterator[Route]:
    """An owner's routes: each alias by a link, and nowhere else where that is gone.

    Args:
        aliases: the MTU of the path to each, by its prefix.
        link: name of the interface.
        via: address of the next hop, by family.
        metrics: the owner's.
    """
    usual, refusing = metrics
    for alias, mtu in aliases.items():
        yield Route(names.ALIASES_TABLE, alias, link, via[family_of(alias)], mtu, usual)
        yield Route(names.ALIASES_TABLE, alias, "", metric=refusing)


def rules(aliases: Mapping[str, int]) -> tuple[Rule, ...]:
    """The rule of each family that occurs; every owner's are the same."""
    return tuple(
        Rule(names.ALIASES_PRIORITY, each, names.ALIASES_TABLE) for each in families(*aliases)
    )
