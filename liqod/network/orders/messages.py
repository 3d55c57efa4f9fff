"""All messages between the daemon and the machine's side, and their bytes."""

from typing import Final

import msgspec

from liqod.network.orders.candidacy import CandidacyOrder, CandidacyReport
from liqod.network.orders.overlay import OverlayOrder, OverlayReport


class MachineStarted(msgspec.Struct, frozen=True, tag=True):
    """The machine's side has begun, with no order yet: the daemon sends all of them anew."""


Order = CandidacyOrder | OverlayOrder
"""From the daemon."""
Report = CandidacyReport | OverlayReport | MachineStarted
"""From the machine."""

ORDERS: Final[msgspec.json.Decoder[Order]] = msgspec.json.Decoder(Order)
REPORTS: Final[msgspec.json.Decoder[Report]] = msgspec.json.Decoder(Report)
encode: Final = msgspec.json.Encoder().encode
