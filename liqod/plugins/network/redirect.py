"""Redirection of all packets of one interface to another, by the kernel's traffic control.

The other one sends them, or receives them, instead. So all that is bound to an interface, such as
addresses, routes, filters and sockets, sees the one alone. It needs ``clsact``, ``u32`` and
``mirred``, which every distribution's kernel has. Everything blocks and concerns the network
namespace of the calling thread.
"""

import errno
import struct
from typing import Final, Literal

from liqod.netlink import CREATE, EXCLUSIVE, Netlink, NetlinkRefused, attributes, inside
from liqod.plugins.network import rtnetlink

Hook = Literal["sent", "received"]

_MESSAGE: Final = struct.Struct("=BxHiIII")
"""Family, number of the interface, handle, parent, and the data of the message's kind."""
_NEW_QUEUE: Final = 36
_NEW, _DELETE, _GET = 44, 45, 46
_OPTIONS = 2
_CLSACT, _CLSACT_HANDLE = 0xFFFFFFF1, 0xFFFF0000
_PARENTS: Final[dict[Hook, int]] = {"sent": 0xFFFFFFF3, "received": 0xFFFFFFF2}
_ALL_PROTOCOLS: Final = 1 << 16 | 0x0300
"""Priority 1, and ``ETH_P_ALL`` in the order of networks."""
_ACTIONS = 7
_EVERYTHING: Final = "0x0/0x0+0"
"""A key that matches every packet."""
_ACTION_OPTIONS, _PARAMETERS = 2, 2
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
    try:
        _redirect(link.index, hook, there.index)
    except NetlinkRefused as error:
        error.doing = "packets cannot be redirected, which takes clsact, u32 and mirred"
        raise


def _redirect(index: int, hook: Hook, there: int) -> None:
    parameters = {"action": _STOLEN, "eaction": _DIRECTIONS[hook], "ifindex": there}
    where = inside(("TCA_MIRRED_PARMS", parameters))
    action = inside(("TCA_ACT_KIND", "mirred"), ("TCA_ACT_OPTIONS", where))
    actions = inside(("TCA_ACT_PRIO_1", action))
    options = inside(("TCA_U32_SEL", {"keys": [_EVERYTHING]}), ("TCA_U32_ACT", actions))
    queue = {"index": index, "handle": _CLSACT_HANDLE, "parent": _CLSACT}
    with Netlink() as netlink:
        netlink.change(_NEW_QUEUE, CREATE, ("TCA_KIND", "clsact"), **queue)
        kind, head = ("TCA_KIND", "u32"), _head(index, hook)
        netlink.change(_NEW, CREATE | EXCLUSIVE, kind, ("TCA_OPTIONS", options), **head)


def _head(index: int, hook: Hook) -> dict[str, int]:
    return {"index": index, "parent": _PARENTS[hook], "info": _ALL_PROTOCOLS}


def leave(name: str, hook: Hook) -> None:
    """Have an interface's packets redirected no more. Idempotent."""
    link = rtnetlink.find(name)
    if link is None or target(name, hook) is None:
        return
    with Netlink() as netlink:
        netlink.change(_DELETE, 0, ("TCA_KIND", "u32"), **_head(link.index, hook))
