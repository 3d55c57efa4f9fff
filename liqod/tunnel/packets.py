"""The TUN device, and the packets of the other side that may be written to it.

The device hands over, and takes, segments of a TCP connection in one piece of up to 64 KiB, with a
header before it (``struct virtio_net_hdr``) that tells how it is to be cut and what of its checksum
is open. So Python is passed by once for some fifty packets. That header travels along, and is made
anew of what the packet says: the kernel is never given what the other side wrote there.
"""

import errno
import fcntl
import os
import struct
from typing import Final

HEADER: Final = struct.Struct("<BBHHHH")
"""Flags, kind, length of the headers, size of a segment, where the checksum begins, and where in
that it is."""
LARGEST: Final = HEADER.size + 40 + 65535
"""Bytes of one piece: an IPv6 packet does not count its own header."""
MOST_SEGMENTS: Final = 128
"""Of one piece, since the kernel cuts it into as many packets as the other side says. The device is
told so, too: what this side sends is not refused there."""

_TUNSETIFF, _TUNSETOFFLOAD, _TUNSETVNETLE = 0x400454CA, 0x400454D0, 0x400454DC
_IFF_TUN, _IFF_NO_PI, _IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
_CSUM, _TSO4, _TSO6 = 1, 2, 4
_OPEN_CHECKSUM, _VALID_CHECKSUM = 1, 2
_WHOLE, _TCP4, _TCP6, _ECN = 0, 1, 4, 0x80
_PLAIN = bytes(HEADER.size)
_TCP, _UDP = 6, 17


def open_device(name: str) -> int:
    """Make a TUN device in this namespace; the file that it is read and written by.

    Raises:
        OSError: it cannot be made.
    """
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        flags = _IFF_TUN | _IFF_NO_PI | _IFF_VNET_HDR
        fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
        fcntl.ioctl(device, _TUNSETVNETLE, struct.pack("i", 1))
        fcntl.ioctl(device, _TUNSETOFFLOAD, _CSUM | _TSO4 | _TSO6)
    except BaseException:
        os.close(device)
        raise
    return device


class Tun:
    """The device as what packets are read from and written to.

    Args:
        file: of the device, as :func:`open_device` opens one; closed with this.
    """

    def __init__(self, file: int) -> None:
        self._file = file

    def close(self) -> None:
        """Close it: the interface goes with its last open file."""
        os.close(self._file)

    def fileno(self) -> int:
        """The file to wait for."""
        return self._file

    def read(self) -> bytes:
        """One piece. Raises BlockingIOError: there is none; OSError: the device is gone."""
        return os.read(self._file, LARGEST)

    def write(self, piece: bytes) -> bool:
        """Write a piece of the other side's; True if it was valid.

        Raises:
            OSError: the device is gone.
        """
        made = checked(piece)
        if made is None:
            return False
        try:
            os.write(self._file, made)
        except OSError as error:
            if error.errno == errno.EBADFD:
                raise  # the interface is gone, and its tunnel goes with it
            return False
        return True


def checked(piece: bytes) -> bytes | None:
    """A piece of the other side's as it may be written to the device; None where it is no packet.

    The filter behind the device judges the packet's source and destination.
    """
    size = len(piece) - HEADER.size
    if size < 20:
        return None
    version = piece[HEADER.size] >> 4
    if version == 4:
        headers, said = (piece[10] & 15) * 4, int.from_bytes(piece[12:14], "big")
        protocol = piece[19]
        if headers < 20:
            return None
    elif version == 6 and size >= 40:
        headers, said, protocol = 40, 40 + int.from_bytes(piece[14:16], "big"), piece[16]
    else:
        return None
    if said != size or headers > size:
        return None
    if piece.startswith(_PLAIN):
        return piece
    flags, kind, _, segment, begins, _ = HEADER.unpack_from(piece)
    if flags & _OPEN_CHECKSUM == 0:
        # That it was found right over there says nothing here: the kernel looks itself.
        return _PLAIN + piece[HEADER.size :] if kind == _WHOLE else None
    if version == 6 and protocol not in (_TCP, _UDP) and headers < begins <= headers + 256:
        # Other headers lie between. By the offset of its checksum it is told what follows them.
        headers, protocol = begins, _UDP if piece[8] == 6 else _TCP
    if begins != headers:
        return None
    return _made(piece, version, kind, segment, headers, protocol)


def _made(
    piece: bytes, version: int, kind: int, segment: int, headers: int, protocol: int
) -> bytes | None:
    """A piece with an open checksum, with its header made anew; None where that cannot be."""
    size = len(piece) - HEADER.size
    if protocol == _UDP and kind == _WHOLE and headers + 8 <= size:
        made = HEADER.pack(_OPEN_CHECKSUM, _WHOLE, 0, 0, headers, 6)
        return made + piece[HEADER.size :]
    if protocol != _TCP or headers + 20 > size:
        return None
    whole = headers + (piece[HEADER.size + headers + 12] >> 4) * 4
    if whole < headers + 20 or whole > size:
        return None
    if kind == _WHOLE:
        made = HEADER.pack(_OPEN_CHECKSUM, _WHOLE, 0, 0, headers, 16)
        return made + piece[HEADER.size :]
    if kind & ~_ECN != (_TCP4 if version == 4 else _TCP6):
        return None
    if segment == 0 or segment * MOST_SEGMENTS < size - whole:
        return None
    made = HEADER.pack(_OPEN_CHECKSUM, kind, whole, segment, headers, 16)
    return made + piece[HEADER.size :]
