"""Messages of the gateway's part of the overlay: the daemon has the objects, the machine a kernel.

The newest of the first three orders counts, and goes on counting while no daemon is connected. All
of them may be repeated, to a side that has begun anew.
"""

import msgspec

from liqod.network.dataplane.overlayplan import Overlay, OverlayNode

# From the daemon.


class LeadOverlay(msgspec.Struct, frozen=True, tag=True):
    """Makes the machine the gateway of the overlay.

    Attributes:
        gateway: the machine's own node.
        nodes: all of them, the gateway among them.
        overlay: the parameters that all have in common.
    """

    gateway: OverlayNode
    nodes: tuple[OverlayNode, ...]
    overlay: Overlay


class RemoveOverlay(msgspec.Struct, frozen=True, tag=True):
    """Removes the overlay from the machine: this cluster has none."""


class ReleaseOverlay(msgspec.Struct, frozen=True, tag=True):
    """Leaves the overlay as it is: another machine is the gateway, and ``liqod node`` keeps it."""


class ReadUplink(msgspec.Struct, frozen=True, tag=True):
    """Requests the MTU of the interface that has an address.

    Attributes:
        address: of the machine, on the nodes' network.
    """

    address: str


# From the machine.


class OverlayState(msgspec.Struct, frozen=True, tag=True):
    """The state of the machine's overlay, sent whenever it changes and for each new order.

    Attributes:
        problem: why it is not as ordered; empty where it is.
    """

    problem: str = ""


class Uplink(msgspec.Struct, frozen=True, tag=True):
    """Answers :class:`ReadUplink`.

    Attributes:
        address: of the request.
        mtu: of its interface, in bytes.
        problem: why it is not known; empty where it is.
    """

    address: str
    mtu: int = 0
    problem: str = ""


OverlayPart = LeadOverlay | RemoveOverlay | ReleaseOverlay
OverlayOrder = OverlayPart | ReadUplink
OverlayReport = OverlayState | Uplink
