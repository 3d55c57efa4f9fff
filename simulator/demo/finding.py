"""Discovery among the demo's clusters: by mDNS on this machine's loopback, else by a file.

Everybody on this machine sees adverts on loopback, and every demo has the same three names: so only
one demo at a time announces its clusters. Where another one does, or where the loopback carries no
mDNS, the operator of the one cluster is given the address and the key of the other, and writes them
into the configuration.
"""

import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trio

from liqod.cli import inspectorclient
from liqod.errors import LiqodError
from liqod.model.view.seen import Cluster, clusters

CLAIM: Final = 6446
"""The UDP port on loopback that a demo holds while it announces: as far as this loopback goes, and
no longer than the process lives. Nothing is ever sent there."""
SEEN_WITHIN: Final = 8.0
"""Seconds for which others are listened for; each is seen some two seconds after its start."""
LOOK_EVERY: Final = 0.2
LOOPBACKS: Final = ("lo", "lo0")
"""Names of the loopback interface on various systems."""

ANNOUNCED: Final = """
[plugins.settings.mdns]
interfaces = ["{interface}"]
"""
"""Configuration by which a daemon announces its cluster, and listens."""

NAMED: Final = """
[[peers]]
id = "{cluster_id}"
addresses = ["{address}"]
key = "{key}"
resources = {{{resources}}}
pod_network = "routed"
pod_cidrs = ["10.0.0.0/8"]
"""
"""Configuration by which a daemon asks another one that it does not see."""


def loopback(known: Sequence[str] = LOOPBACKS) -> str:
    """The name of the loopback interface; empty where there is none.

    Args:
        known: names that it may have.
    """
    names = [name for _, name in socket.if_nameindex()]
    return next((each for each in known if each in names), "")


@contextmanager
def claimed(port: int = CLAIM, loopbacks: Sequence[str] = LOOPBACKS) -> Iterator[str]:
    """Be the one demo that announces on this loopback, for as long as this lasts.

    Gives why it must not, in a clause; empty where it may.

    Args:
        port: UDP port that is held meanwhile.
        loopbacks: names that the interface may have.
    """
    why = "" if loopback(loopbacks) else "this machine has no loopback interface"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as claim:
        try:
            claim.bind(("127.0.0.1", port))
        except OSError:
            why = f"UDP port {port} of loopback is taken, as by another demo that announces there"
        yield why


Look = Callable[[Path], Awaitable[tuple[dict[str, str], str]]]
"""Finds the identity state of each cluster that a daemon sees, by id; and why it sees none."""


async def unseen(path: Path, names: Sequence[str], look: Look | None = None) -> str:
    """Listen until a daemon sees others by mDNS, each by an advert that its own key has signed.

    Args:
        path: the daemon's socket.
        names: their cluster ids.
        look: asks the daemon what it sees; :func:`seen_by_mdns`, if not given.

    Returns:
        Why they cannot be found by that, in a clause; empty once all are seen.
    """
    look = look or seen_by_mdns
    missing = tuple(names)
    with trio.move_on_after(SEEN_WITHIN):
        while True:
            found, failure = await look(path)
            twice = [each for each in names if found.get(each) == "conflict"]
            if failure:
                return f"mDNS does not work here: {failure}"
            if twice:
                return f"somebody else here is called {' and '.join(twice)}, too"
            missing = tuple(each for each in names if found.get(each) != "signed")
            if not missing:
                return ""
            await trio.sleep(LOOK_EVERY)
    return f"nothing was heard of {' and '.join(missing)} for {SEEN_WITHIN:.0f} s"


async def seen_by_mdns(path: Path) -> tuple[dict[str, str], str]:
    """The identity state of each cluster that a daemon sees by mDNS, by id; why it sees none."""
    try:
        async with inspectorclient.connect(path) as viewer:
            _, state = await viewer.snapshot()
    except LiqodError:
        return {}, ""
    failure = next((each.failure for each in state.plugins.values() if each.name == "mdns"), "")

    def by_mdns(found: Cluster) -> bool:
        return any(source.plugin == "mdns" for source in found.sources)

    found = filter(by_mdns, clusters(state.sightings.values()))
    return {each.id: each.verified for each in found}, failure
