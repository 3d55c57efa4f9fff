"""Serves at an address of the configuration; a port in use is an error of the configuration."""

import trio

from liqod.errors import ConfigError
from liqod.kube.http.httpserver import Handler, Limits, Open, Secured, serve
from liqod.runtime.connectionlimit import ConnectionLimiter


async def listen(
    table: str,
    handler: Handler,
    *,
    host: str,
    port: int,
    ssl_context: Secured = None,
    limits: Limits,
    places: ConnectionLimiter,
    known: ConnectionLimiter | None = None,
    open_listeners: Open = trio.open_tcp_listeners,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve; an address that cannot be bound is an error in that table of the configuration.

    Raises:
        ConfigError: the address cannot be bound.
    """
    try:
        await serve(
            handler,
            host=host,
            port=port,
            ssl_context=ssl_context,
            limits=limits,
            places=places,
            answered=known,
            open_listeners=open_listeners,
            task_status=task_status,
        )
    except OSError as error:
        raise taken(error, table, host, port) from error


def taken(error: OSError, table: str, host: str, port: int, besides: str = "") -> ConfigError:
    """The error for an address that cannot be bound, with the setting of that table to change.

    Args:
        error: the error of the operating system.
        table: of the configuration.
        host: the address.
        port: the port.
        besides: another possible change; it follows the sentence.
    """
    return ConfigError(
        f"cannot listen on {host} port {port}: {error.strerror or error}; "
        f"set {table}.port to another (0 takes a free one){besides}"
    )


def wildcard(address: str) -> str:
    """The address that means every interface, in the family of ``address``."""
    return "::" if ":" in address else "0.0.0.0"
