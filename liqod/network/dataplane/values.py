"""The content of a network namespace as values: links, addresses, routes, rules, nftables tables.

Plans are made of these and compared with what the kernel has; nothing here reads or changes it.
Interfaces, addresses and prefixes are text as ``ip`` prints it, families 4 and 6.
"""

from typing import Literal

import msgspec

Family = Literal[4, 6]


class KernelChange(msgspec.Struct, frozen=True):
    """One change that was made in the kernel to bring it to the plan.

    Attributes:
        text: as in the log.
        table: whether it is a table of nftables, by which addresses are translated.
    """

    text: str
    table: bool = False

    def within(self, namespace: str) -> "KernelChange":
        """The same, named as one of a network namespace."""
        return KernelChange(f"{namespace}: {self.text}", self.table)


class Veth(msgspec.Struct, frozen=True):
    """One end of a pair, whose other end lies in another namespace.

    Attributes:
        name: of the interface, at most 15 characters.
        mac: its address.
        mtu: in bytes.
        peer: name of the other end.
        namespace: where the other end is, by its name.
    """

    name: str
    mac: str
    mtu: int
    peer: str
    namespace: str


class Vxlan(msgspec.Struct, frozen=True):
    """An overlay device that learns nothing: each path is a :class:`Forwarding` and a neighbour.

    Attributes:
        name: of the interface.
        mac: its address.
        mtu: in bytes.
        vni: number of the overlay, 24 bits.
        port: UDP port.
        local: address of this node.
    """

    name: str
    mac: str
    mtu: int
    vni: int
    port: int
    local: str


class ForeignLink(msgspec.Struct, frozen=True):
    """A link that another program made, such as a tunnel's: it is only set up here.

    It gets addresses and neighbours; where its frames go stays its maker's.

    Attributes:
        name: of the interface.
        mtu: in bytes.
    """

    name: str
    mtu: int


Link = Veth | Vxlan | ForeignLink


class Address(msgspec.Struct, frozen=True, order=True):
    """An address of an interface.

    Attributes:
        link: name of the interface.
        prefix: address and length, such as ``169.254.18.1/30``.
    """

    link: str
    prefix: str


class Route(msgspec.Struct, frozen=True, order=True):
    """A route.

    Attributes:
        table: number of the table.
        to: prefix; ``0.0.0.0/0`` or ``::/0`` for all.
        link: name of the interface; empty for one that refuses (``unreachable``).
        via: address of the next hop, taken to be on the link; empty for none.
        mtu: in bytes; 0 for the link's own.
        metric: of several routes to a prefix the lowest is taken; 0 for the usual one.
    """

    table: int
    to: str
    link: str
    via: str = ""
    mtu: int = 0
    metric: int = 0


class Rule(msgspec.Struct, frozen=True, order=True):
    """A routing rule: matching packets look into a table.

    Attributes:
        priority: rules are tried in this order.
        family: 4 or 6.
        table: number of the table.
        to: prefix of destinations; empty for all.
        source: prefix of sources; empty for all.
        incoming: name of the interface that packets came from; empty for all.
    """

    priority: int
    family: Family
    table: int
    to: str = ""
    source: str = ""
    incoming: str = ""


class Neighbour(msgspec.Struct, frozen=True, order=True):
    """A permanent neighbour, which is never resolved.

    Attributes:
        link: name of the interface.
        address: its address.
        mac: its link-layer address.
    """

    link: str
    address: str
    mac: str


class Forwarding(msgspec.Struct, frozen=True, order=True):
    """Where frames for a link-layer address leave an overlay device.

    Attributes:
        link: name of the VXLAN device.
        mac: link-layer address.
        to: address of the node that has it.
    """

    link: str
    mac: str
    to: str


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """All of liqod's objects in one network namespace. Nothing else in it is touched.

    They are found by names and numbers (:mod:`liqod.network.dataplane.names`): links by prefix,
    routes by table, rules by priority, nftables by table; the addresses, neighbours and
    forwarding entries are those of our links.

    Attributes:
        links, addresses, routes, rules, neighbours, forwarding: what is there.
        sysctls: values by their path below ``/proc/sys``, such as ``net/ipv4/ip_forward``. They are
            set and never taken back.
        tables: nftables' text of each table by family and name, such as ``inet liqod``; without
            the line that names the table.
    """

    links: tuple[Link, ...] = ()
    addresses: tuple[Address, ...] = ()
    routes: tuple[Route, ...] = ()
    rules: tuple[Rule, ...] = ()
    neighbours: tuple[Neighbour, ...] = ()
    forwarding: tuple[Forwarding, ...] = ()
    sysctls: dict[str, str] = {}
    tables: dict[str, str] = {}


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """One owner's part of a network namespace. Only that is changed, or taken away.

    Several owners may share a namespace (each peer has a part of the node's), so that each is
    applied, healed and taken away without the others. A table of routes, or one of nftables, has
    one owner, but for one that several share: there routes are their owner's by their metric.

    Attributes:
        mark: the owner, at most 100 characters: the alias of links that are made, and the comment
            of tables of nftables.
        links: names of the links, with their addresses, neighbours and forwarding entries.
        tables: numbers of the tables whose routes are its.
        shared: number of the table that it shares with others; 0 for none. The rule that leads
            there is theirs as well, and stays as long as anybody has a route there.
        metrics: of its routes in that table.
        priorities: the lowest and the highest priority of its rules. Its rules are those for
            packets from one of its links, and those for packets from anywhere that look into one of
            its tables.
        nftables: tables of nftables, as in :class:`Namespace`.
    """

    mark: str
    links: tuple[str, ...] = ()
    tables: tuple[int, ...] = ()
    shared: int = 0
    metrics: tuple[int, ...] = ()
    priorities: tuple[int, int] = (0, 0)
    nftables: tuple[str, ...] = ()
