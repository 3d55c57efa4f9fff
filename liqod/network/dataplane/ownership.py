"""An owner's part of a network namespace: written as the kernel writes it, and checked. Pure."""

from ipaddress import ip_address, ip_interface, ip_network

import msgspec

from liqod.errors import NetworkError
from liqod.network.dataplane.values import (
    Address,
    Forwarding,
    Namespace,
    Neighbour,
    Owned,
    Route,
    Rule,
)


def canonical(want: Namespace) -> Namespace:
    """The same in the kernel's writing, since it is compared as text."""
    return msgspec.structs.replace(
        want,
        addresses=tuple(
            Address(entry.link, str(ip_interface(entry.prefix))) for entry in want.addresses
        ),
        routes=tuple(
            msgspec.structs.replace(route, to=str(ip_network(route.to)), via=_plain(route.via))
            for route in want.routes
        ),
        rules=tuple(
            msgspec.structs.replace(
                rule,
                to=str(ip_network(rule.to)) if rule.to else "",
                source=str(ip_network(rule.source)) if rule.source else "",
            )
            for rule in want.rules
        ),
        neighbours=tuple(
            Neighbour(entry.link, _plain(entry.address), entry.mac.lower())
            for entry in want.neighbours
        ),
        forwarding=tuple(
            Forwarding(entry.link, entry.mac.lower(), _plain(entry.to)) for entry in want.forwarding
        ),
    )


def _plain(address: str) -> str:
    return str(ip_address(address)) if address else ""


def check(want: Namespace, owned: Owned) -> None:
    """Refuses a plan with objects that are not its owner's: they would be left behind."""
    strange = [link.name for link in want.links if link.name not in owned.links]
    strange += [f"route {route.to}" for route in want.routes if not is_route_of(route, owned)]
    strange += [rule_text(rule) for rule in want.rules if not is_rule_of(rule, owned)]
    strange += [name for name in want.tables if name not in owned.nftables]
    if strange:
        raise NetworkError(f"not of {owned.mark}: {', '.join(strange)}")


def key(route: Route) -> tuple[int, str, int]:
    """Table, prefix and metric: of routes that are alike in these the kernel has one."""
    return route.table, route.to, route.metric


def is_route_of(route: Route, owned: Owned) -> bool:
    """True if a route is an owner's."""
    shared = route.table == owned.shared and route.metric in owned.metrics
    return shared or route.table in owned.tables


def is_rule_of(rule: Rule, owned: Owned) -> bool:
    """True if a rule is an owner's, or one that it shares."""
    low, high = owned.priorities
    # A rule for packets of one's link may look into another's table: the overlay's.
    tables = (*owned.tables, owned.shared)
    theirs = rule.incoming in owned.links if rule.incoming else rule.table in tables
    return low <= rule.priority <= high and theirs


def route_text(route: Route) -> str:
    """A route as in the log."""
    kind = "route" if route.link else "unreachable route"
    return f"{kind} {route.to} in table {route.table}"


def rule_text(rule: Rule) -> str:
    """A rule as in the log."""
    parts = [f"rule {rule.priority}"]
    parts += [f"from {rule.source}"] if rule.source else []
    parts += [f"to {rule.to}"] if rule.to else []
    parts += [f"iif {rule.incoming}"] if rule.incoming else []
    return " ".join([*parts, f"table {rule.table}"])
