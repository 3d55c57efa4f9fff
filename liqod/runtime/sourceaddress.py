"""The address of this machine from which another one is reached, by its routes."""

import socket


def source_address(address: str) -> str:
    """The address from which packets to another address go; nothing is sent.

    Args:
        address: of either family.

    Raises:
        OSError: there is no route.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((address, 443))  # of a datagram socket: nothing is sent, nothing waits
        return str(asking.getsockname()[0])
