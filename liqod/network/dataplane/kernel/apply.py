"""Brings a network namespace to the state of a value, by the difference alone.

The actual state is read, and only differences are written. New objects are made before old ones are
taken away, tables of nftables first and last: no packet takes a path whose rules are not there yet,
or are gone already. A call that stops half-way is continued by the next one.
"""

import errno
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from liqod.errors import NetworkError
from liqod.netlink import Netlink, NetlinkRefused
from liqod.network.dataplane import ownership
from liqod.network.dataplane.families import family_of
from liqod.network.dataplane.kernel import flows, kernellinks, namespaces, nft, routing, sysctls
from liqod.network.dataplane.values import (
    ForeignLink,
    KernelChange,
    Link,
    Namespace,
    Owned,
    Rule,
    Veth,
    Vxlan,
)
from liqod.plugins.network import rtnetlink

# It went with something that was taken away before it, or by another's hand.
_GONE = (errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.ENXIO, errno.EADDRNOTAVAIL)


async def apply(namespace: str | None, want: Namespace, owned: Owned) -> list[KernelChange]:
    """Brings the owner's part of a namespace to the desired state.

    Args:
        namespace: its name; None for the one that this process is in.
        want: the desired state of the owner's part.
        owned: the owner, and the names and numbers that may be its.

    Returns:
        The changes; empty where none was needed.

    Raises:
        NetworkError: a part is somebody else's, or the kernel refuses it; other parts may be done.
        ValueError: an address or a prefix is none.
    """
    return await namespaces.inside(namespace, partial(change, want, owned))


def change(want: Namespace, owned: Owned) -> list[KernelChange]:
    """As :func:`apply`, in the namespace of this thread, which is blocked meanwhile."""
    want = ownership.canonical(want)
    ownership.check(want, owned)
    with Netlink() as netlink:
        run = _Run(netlink, want, owned)
        run.sysctls()
        run.tables()
        run.links()
        run.sysctls(last=True)
        run.of_links()
        run.routes()
        run.rules()
        run.without_the_old()
        run.flows()
        return run.changes


class _Run:
    """One application: the changes so far, and the removals that are due at its end."""

    def __init__(self, netlink: Netlink, want: Namespace, owned: Owned) -> None:
        self.changes: list[KernelChange] = []
        self._netlink = netlink
        self._want = want
        self._owned = owned
        self._links: dict[str, rtnetlink.Link] = {}
        self._absent: set[str] = set()
        self._later: set[str] = set()
        self._reached: set[str] = set()
        self._old: list[tuple[str, Callable[[], None]]] = []
        self._unused: list[Rule] = []

    def sysctls(self, *, last: bool = False) -> None:
        """Sets those that are there; those of interfaces are when these are."""
        for path, value in sysctls.differing(self._want.sysctls).items():
            if not self._absent.isdisjoint(path.split("/")):
                continue
            if path in self._later if last else sysctls.exists(path):
                self._do(f"{path} set to {value}", partial(sysctls.write, path, value))
            elif not last:
                self._later.add(path)

    def tables(self) -> None:
        """Writes the tables of nftables that differ."""
        differing = nft.differing(self._want.tables, self._owned.mark)
        if differing:
            wanted = {name: self._want.tables[name] for name in differing}
            for name in differing:
                self.changes.append(KernelChange(f"table {name} written", table=True))
            nft.write(wanted, self._owned.mark)

    def links(self) -> None:
        """Makes links, and has them be as they should."""
        found = kernellinks.by_name(self._netlink, self._owned.links)
        for wanted in self._want.links:
            link = found.get(wanted.name)
            if link is not None:
                self._not_others(link, wanted)
                if _is_another(link, wanted):
                    delete = partial(kernellinks.delete, self._netlink, link.index)
                    self._do(f"link {link.name} deleted, to be made anew", delete)
                    link = None
            made = link is None
            if made:
                self._make(wanted)
                link = rtnetlink.find_by(self._netlink, wanted.name)
            if link is None:
                self._absent.add(wanted.name)
            else:
                self._links[wanted.name] = link
                self._set_up(link, wanted, made)
        unwanted = found.keys() - {wanted.name for wanted in self._want.links}
        for name in sorted(unwanted):
            # A tunnel's link has no mark of ours; its maker takes it away.
            if found[name].alias == self._owned.mark:
                delete = partial(kernellinks.delete, self._netlink, found[name].index)
                self._old.append((f"link {name} deleted", delete))

    def of_links(self) -> None:
        """Addresses, neighbours and forwarding entries of the wanted links."""
        for wanted in self._want.links:
            name = wanted.name
            if name not in self._absent:
                # Again where one was taken away, which may take others of its network along.
                while self._addresses(name):
                    pass
                self._neighbours(name)
                # The maker of a tunnel sets where its frames go, or the device learns it.
                if not isinstance(wanted, ForeignLink):
                    self._forwarding(name)

    def routes(self) -> None:
        """The owner's routes."""
        names = {link.index: link.name for link in self._links.values()}
        have = routing.routes(self._netlink, self._owned.tables, names)
        if self._owned.shared:
            shared = (self._owned.shared,)
            have += routing.routes(self._netlink, shared, names, self._owned.metrics)
        present = {entry.route for entry in have}
        want = {ownership.key(route): route for route in self._want.routes}
        for route in sorted(set(want.values()) - present):
            if route.link not in self._absent:
                do = partial(routing.set_route, self._netlink, route, self._index(route.link))
                self._do(f"{ownership.route_text(route)} set", do)
                if not route.link:
                    # Nothing kept packets to it from leaving by another way.
                    self._reached.add(route.to)
        for entry in have:
            wanted = want.get(ownership.key(entry.route))
            # The routes set above replaced others with their metric.
            replaced = wanted is not None and wanted not in present
            if entry.route != wanted and not replaced:
                self._old.append(self._without(entry))

    def rules(self) -> None:
        """The owner's rules."""
        every = routing.rules(self._netlink)
        have = {rule for rule in every if ownership.is_rule_of(rule, self._owned)}
        for rule in sorted(set(self._want.rules) - have):
            self._add(rule)
            if rule.table == self._owned.shared:
                shared = routing.routes(self._netlink, (rule.table,), {})
                self._reached |= {entry.route.to for entry in shared}
        for rule in sorted(have - set(self._want.rules)):
            if rule.table == self._owned.shared:
                self._unused.append(rule)
                continue
            do = partial(routing.set_rule, self._netlink, rule, there=False)
            # Before their targets.
            self._old.insert(0, (f"{ownership.rule_text(rule)} deleted", do))

    def flows(self) -> None:
        """Where a range has a new route, flows from before begin anew."""
        if self._reached:
            forgotten = flows.forget(sorted(self._reached))
            if forgotten:
                self.changes.append(KernelChange(f"{forgotten} flows from before forgotten"))

    def without_the_old(self) -> None:
        """Takes away objects that are no longer wanted."""
        for said, do in self._old:
            self._do(said, do, but=_GONE)
        for rule in self._unused:
            self._leave(rule)
        unwanted = set(self._owned.nftables) - self._want.tables.keys()
        if unwanted:
            for table in nft.present(sorted(unwanted), self._owned.mark):
                self._do(f"table {table} deleted", partial(nft.delete, table))
        if self._absent:
            raise NetworkError(f"there is no interface {', '.join(sorted(self._absent))}")

    def _add(self, rule: Rule) -> None:
        # Of those who share one another may be faster.
        add = partial(routing.set_rule, self._netlink, rule)
        self._do(f"{ownership.rule_text(rule)} added", add, but=(errno.EEXIST,))

    def _leave(self, rule: Rule) -> None:
        """Leaves a shared table, whose rule goes with the last who has a route there."""
        # A list lacks some routes where others take theirs from the same table meanwhile.
        for entry in routing.routes(self._netlink, (rule.table,), {}, self._owned.metrics):
            if family_of(entry.route.to) == rule.family:
                self._do(*self._without(entry), but=_GONE)
        unused = partial(routing.is_empty, self._netlink, rule.table, rule.family)
        if unused():
            delete = partial(routing.set_rule, self._netlink, rule, there=False)
            self._do(f"{ownership.rule_text(rule)} deleted", delete, but=_GONE)
            # One who came in between has found it there.
            if not unused():
                self._add(rule)

    def _without(self, entry: routing.Entry) -> tuple[str, Callable[[], None]]:
        said = f"{ownership.route_text(entry.route)} deleted"
        return said, partial(routing.delete_route, self._netlink, entry)

    def _make(self, wanted: Link) -> None:
        mark = self._owned.mark
        match wanted:
            case Veth():
                self._do(f"link {wanted.name} made", partial(self._make_pair, wanted))
            case Vxlan():
                make = partial(kernellinks.add_vxlan, self._netlink, wanted, mark)
                self._do(f"link {wanted.name} made", make)
            case ForeignLink():
                pass  # its tunnel makes it

    def _make_pair(self, wanted: Veth) -> None:
        path = namespaces.path(wanted.namespace or None)
        try:
            other = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise NetworkError(f"no namespace {wanted.namespace or path}: {error}") from error
        try:
            kernellinks.add_veth(self._netlink, wanted, self._owned.mark, other)
        except NetlinkRefused as error:
            if error.errno != errno.EEXIST:
                raise
            # The other end is there alone: somebody has given this end another name or place.
            namespaces.enter_path(path, partial(rtnetlink.delete, wanted.peer))
            kernellinks.add_veth(self._netlink, wanted, self._owned.mark, other)
        finally:
            os.close(other)

    def _not_others(self, link: rtnetlink.Link, wanted: Link) -> None:
        """One without a mark was being made when a process was killed."""
        if not isinstance(wanted, ForeignLink) and nft.is_anothers(link.alias, self._owned.mark):
            raise NetworkError(f"the interface {link.name} is of {link.alias}")

    def _set_up(self, link: rtnetlink.Link, wanted: Link, made: bool) -> None:
        differing: dict[str, Any] = {}
        if link.mtu != wanted.mtu:
            differing["mtu"] = wanted.mtu
        if not isinstance(wanted, ForeignLink):
            if link.mac != wanted.mac:
                differing["mac"] = wanted.mac
            if link.alias != self._owned.mark:
                differing["alias"] = self._owned.mark
        if differing or not link.up:
            do = partial(kernellinks.set_up, self._netlink, link.index, **differing)
            if made:
                do()
            else:
                said = ", ".join(f"{name} {value}" for name, value in differing.items())
                self._do(f"link {link.name} set up{f' with {said}' if said else ''}", do)

    def _addresses(self, name: str) -> bool:
        """Applies the addresses of a link; True if any was deleted."""
        have = kernellinks.addresses(self._netlink, self._links[name])
        want = {address for address in self._want.addresses if address.link == name}
        for address in sorted(want - have):
            do = partial(kernellinks.add_address, self._netlink, address, self._index(name))
            self._do(f"address {address.prefix} of {name} added", do)
        for address in sorted(have - want):
            do = partial(kernellinks.delete_address, self._netlink, address, self._index(name))
            self._do(f"address {address.prefix} of {name} deleted", do)
        return bool(have - want)

    def _neighbours(self, name: str) -> None:
        have = kernellinks.neighbours(self._netlink, self._links[name])
        set_to = partial(kernellinks.set_neighbour, self._netlink)
        want = {entry for entry in self._want.neighbours if entry.link == name}
        for entry in sorted(want - have):
            do = partial(set_to, entry, self._index(name))
            self._do(f"neighbour {entry.address} of {name} at {entry.mac}", do)
        places = {entry.address for entry in want}
        for entry in sorted(have - want):
            if entry.address not in places:
                do = partial(set_to, entry, self._index(name), there=False)
                self._old.append((f"neighbour {entry.address} of {name} deleted", do))

    def _forwarding(self, name: str) -> None:
        link = self._links[name]
        set_to = partial(kernellinks.set_forwarding, self._netlink)
        have = kernellinks.forwarding(self._netlink, link) if link.kind == "vxlan" else set()
        want = {entry for entry in self._want.forwarding if entry.link == name}
        for entry in sorted(want - have):
            do = partial(set_to, entry, self._index(name))
            self._do(f"frames for {entry.mac} leave {name} to {entry.to}", do)
        places = {entry.mac for entry in want}
        for entry in sorted(have - want):
            if entry.mac not in places:
                do = partial(set_to, entry, self._index(name), there=False)
                self._old.append((f"frames for {entry.mac} leave {name} nowhere", do))

    def _index(self, name: str) -> int:
        """The number of a link; 0 for a route that has none."""
        link = self._links.get(name)
        return link.index if link is not None else 0

    def _do(self, said: str, do: Callable[[], None], *, but: tuple[int, ...] = ()) -> None:
        """Makes a change; with one of some errors there is none to be made."""
        try:
            do()
        except NetlinkRefused as error:
            if error.errno in but:
                return
            error.doing = said
            raise
        self.changes.append(KernelChange(said))


def _is_another(link: rtnetlink.Link, wanted: Link) -> bool:
    """True if no change would turn this link into the wanted one."""
    match wanted:
        case Veth():
            return link.kind != "veth"
        case Vxlan():
            as_made = (wanted.vni, wanted.port, wanted.local, False)
            return link.kind != "vxlan" or kernellinks.overlay(link) != as_made
        case ForeignLink():
            return False
