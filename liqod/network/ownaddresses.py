"""The addresses of a machine by which peers reach it, unless others are configured. Pure."""

from liqod.model.crossing.addresses import parse


def own_addresses(node: str) -> tuple[str, ...]:
    """The address of a machine as a node; none where that leads to no other machine."""
    parsed = parse(node)
    if parsed is None or parsed.is_loopback or parsed.is_unspecified or parsed.is_link_local:
        return ()
    return (node,)
