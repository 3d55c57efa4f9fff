"""All messages between the daemon and the machine's side, and their bytes."""

from typing import Any, Final, Generic, TypeVar, get_args

import msgspec

from liqod.network.orders.candidacy import CandidacyOrder, CandidacyReport
from liqod.network.orders.greeting import Generation
from liqod.network.orders.overlay import OverlayOrder, OverlayReport
from liqod.network.orders.tunnels import TunnelMessage, TunnelNews

M = TypeVar("M", bound=msgspec.Struct)
T = TypeVar("T")


class OrderRefused(msgspec.Struct, frozen=True, tag=True):
    """The machine's side does not know an order, which a later version has; others go on.

    Attributes:
        name: of the order.
    """

    name: str


Order = CandidacyOrder | OverlayOrder | TunnelMessage
"""From the daemon, for the machine's services."""
DaemonMessage = Order | Generation
"""From the daemon."""
Report = CandidacyReport | OverlayReport | TunnelNews
"""From the machine's services."""
Reply = Report | OrderRefused
"""From the machine."""


class Unknown(msgspec.Struct, frozen=True):
    """A message of a later version.

    Attributes:
        name: of the message.
    """

    name: str


class _Tagged(msgspec.Struct):
    type: str


class Messages(Generic[M]):
    """The messages of one direction.

    Args:
        union: their types.
    """

    def __init__(self, union: Any) -> None:
        self._decoder: msgspec.json.Decoder[M] = msgspec.json.Decoder(union)
        self._names = frozenset(each.__name__ for each in get_args(union))

    def decode(self, body: bytes) -> M | Unknown:
        """A message from its bytes.

        Raises:
            ValueError: they are none.
        """
        try:
            return read(self._decoder, body)
        except ValueError:
            name = read(_TAGGED, body).type
            if name in self._names:
                raise
            return Unknown(name[:64])


def read(decoder: "msgspec.json.Decoder[T]", body: bytes) -> T:
    """A message from its bytes. Raises ValueError: they are none."""
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        # The text names the place in the message, and the value of a tag alone.
        raise ValueError(f"no sound message: {ascii(str(error))[:200]}") from None


_TAGGED: Final = msgspec.json.Decoder(_Tagged)
ORDERS: Final = Messages[DaemonMessage](DaemonMessage)
REPLIES: Final = Messages[Reply](Reply)
encode: Final = msgspec.json.Encoder().encode
