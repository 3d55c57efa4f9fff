"""Redirection of all packets of one interface to another, by the kernel's traffic control.

The other one sends them, or receives them, instead. So all that is bound to an interface, such as
addresses, routes, filters and sockets, sees the one alone. It needs ``clsact``, ``u32`` and
``mirred``, which every distribution's kernel has. Everything blocks and concerns the network
namespace of the calling thread.
"""

import errno
import struct
from typing import Final, Literal

from liqod.netlink import (
    CREATE,
    EXCLUSIVE,
    Netlink,
    NetlinkRefused,
    attribute,
    attributes,
    nest,
    text,
)
from liqod.plugins.network import rtnetlink

Hook = Literal["sent", "received"]

_MESSAGE: Final = struct.Struct("=BxHiIII")
"""Family, number of the interface, handle, parent, and the data of the message's kind."""
_NEW_QUEUE: Final = 36
_NEW, _DELETE, _GET = 44, 45, 46
_KIND, _OPTIONS = 1, 2
_CLSACT, _CLSACT_HANDLE = 0xFFFFFFF1, 0xFFFF0000
_PARENTS: Final[dict[Hook, int]] = {"sent": 0xFFFFFFF3, "received": 0xFFFFFFF2}
_ALL_PROTOCOLS: Final = 1 << 16 | 0x0300
"""Priority 1, and ``ETH_P_ALL`` in the order of networks."""
_SELECTOR, _ACTIONS = 5, 7
_EVERYTHING: Final = struct.pack("=BBBxHHhhI IIii", 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
"""One key that matches every packet, after which no other is looked for."""
_ACTION_KIND, _ACTION_OPTIONS, _PARAMETERS = 1, 2, 2
_MIRRED: Final = struct.Struct("=IIiiiiI")
"""The head of any action, in which its verdict is third; where to, and the interface there."""
_STOLEN: Final = 4
_DIRECTIONS: Final[dict[Hook, int]] = {"sent": 1, "received": 3}


def target(name: str, hook: Hook) -> int | None:
    """Number of the interface that an interface's packets are redirected to; None for none.

    0 where that interface is gone: packets are dropped then.
    """
    link = rtnetlink.find(name)
    if link is None:
        return None
    body = _MESSAGE.pack(0, 0, link.index, 0, _PARENTS[hook], 0)
    with Netlink() as netlink:
        for found in netlink.dump(_GET, body):
            options = attributes(attributes(found, _MESSAGE.size).get(_OPTIONS, b""))
            action = attributes(attributes(options.get(_ACTIONS, b"")).get(1, b""))
            said = attributes(action.get(_ACTION_OPTIONS, b"")).get(_PARAMETERS, b"")
            if len(said) >= _MIRRED.size:
                return int(_MIRRED.unpack_from(said)[-1])
    return None


def lead(name: str, hook: Hook, other: str) -> None:
    """Have an interface's packets redirected; of a redirection that is so already nothing changes.

    Args:
        name: of the interface.
        hook: whether it is those that it sends, or those that it receives.
        other: the interface that sends, or receives, them instead.

    Raises:
        NetlinkRefused: one of the two is not there, or the kernel cannot.
    """
    link, there = rtnetlink.find(name), rtnetlink.find(other)
    if link is None or there is None:
        raise NetlinkRefused(errno.ENODEV, "of two interfaces one is gone")
    before = target(name, hook)
    if before == there.index:
        return
    if before is not None:
        leave(name, hook)
    parameters = _MIRRED.pack(0, 0, _STOLEN, 0, 0, _DIRECTIONS[hook], there.index)
    action = nest(
        1, text(_ACTION_KIND, "mirred"), nest(_ACTION_OPTIONS, attribute(_PARAMETERS, parameters))
    )
    options = nest(_OPTIONS, attribute(_SELECTOR, _EVERYTHING), nest(_ACTIONS, action))
    try:
        _redirect(link.index, hook, options)
    except NetlinkRefused as error:
        error.doing = "packets cannot be redirected, which takes clsact, u32 and mirred"
        raise


def _redirect(index: int, hook: Hook, options: bytes) -> None:
    with Netlink() as netlink:
        queue = _MESSAGE.pack(0, 0, index, _CLSACT_HANDLE, _CLSACT, 0)
        netlink.request(_NEW_QUEUE, CREATE, queue + text(_KIND, "clsact"))
        head = _MESSAGE.pack(0, 0, index, 0, _PARENTS[hook], _ALL_PROTOCOLS)
        netlink.request(_NEW, CREATE | EXCLUSIVE, head + text(_KIND, "u32") + options)


def leave(name: str, hook: Hook) -> None:
    """Have an interface's packets redirected no more. Idempotent."""
    link = rtnetlink.find(name)
    if link is None or target(name, hook) is None:
        return
    body = _MESSAGE.pack(0, 0, link.index, 0, _PARENTS[hook], _ALL_PROTOCOLS)
    with Netlink() as netlink:
        netlink.request(_DELETE, 0, body + text(_KIND, "u32"))
