"""The project's error tree, split by what the caller does next.

    LiqodError
    ├── ConfigError              the operator mends a file, a flag or a manifest
    │   └── Misuse               the command line itself makes no sense
    ├── PluginError              the plugin is named and left out
    │   └── PluginParked         it is not called for a while, and nothing was done
    ├── NetworkError             the kernel refuses a part of the network, or cannot be asked
    ├── TransientError           try again, with back-off
    │   ├── Unreachable          no connection, or it broke, or nothing came within the deadline
    │   │   ├── Unconnected      no connection could be made at all
    │   │   └── Untrusted        the server shows a certificate that is not trusted
    │   ├── Overloaded           429 or 5xx; carries the server's Retry-After
    │   └── Expired              410: the resource version is too old; list again
    └── PermanentError           trying again changes nothing until somebody changes something
        ├── Unauthorized         401: the credentials are refused
        ├── Forbidden            403: the credentials hold, the right is missing
        ├── NotFound             404
        ├── Conflict             409: somebody else wrote first, or a precondition failed
        │   └── AlreadyExists    409 on create
        ├── Invalid              400, 413, 422: the server refuses the object
        └── ProtocolError        the other side broke the protocol: nonsense, too large, wrong type

Adapters translate foreign errors at the edge and keep them as ``__cause__``.
"""

UNTRUSTED = "the server's certificate is not trusted"
"""How the text of an :class:`Untrusted` begins."""


class LiqodError(Exception):
    """Root of every error that liqod raises on purpose."""


class ConfigError(LiqodError):
    """Something the operator wrote is wrong; the message says what and what to do next."""


class Misuse(ConfigError):
    """The command line itself makes no sense: an option, or what it leaves open."""


class PluginError(LiqodError):
    """A plugin cannot be loaded or broke its contract; it is named and left out.

    Attributes:
        retry_after: seconds for which the same object is not tried again, or None.
    """

    retry_after: float | None = None


class PluginParked(PluginError):
    """A plugin is parked: it was not called, and is to be called later."""


class NetworkError(LiqodError):
    """The kernel refuses a part of the network, or cannot be asked; the message says which."""


class TransientError(LiqodError):
    """Worth another try after a pause."""


class Unreachable(TransientError):
    """No connection could be made, it broke, or nothing came within the deadline."""


class Unconnected(Unreachable):
    """No connection could be made: nobody listens there, or nothing leads there."""


class Untrusted(Unreachable):
    """The server shows a certificate that none of the known authorities has signed."""


class NotStarted(Unreachable):
    """A task could not begin: something that it needs did not come in time."""


class Overloaded(TransientError):
    """The server answered 429 or 5xx.

    Attributes:
        status: the HTTP status.
        retry_after: seconds the server asked to wait, or None.
    """

    def __init__(
        self, message: str, *, status: int = 503, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class Expired(TransientError):
    """410: the resource version asked for is gone; list again."""


class PermanentError(LiqodError):
    """Trying again changes nothing until somebody changes something."""


class Unauthorized(PermanentError):
    """401: the credentials are refused."""


class Forbidden(PermanentError):
    """403: the credentials hold, but the right is missing."""


class NotFound(PermanentError):
    """404: there is no such object, namespace or kind.

    Attributes:
        served: the server knows the kind, as far as can be seen: only an object is missing.
    """

    def __init__(self, message: str = "", *, served: bool = True) -> None:
        super().__init__(message)
        self.served = served


class Conflict(PermanentError):
    """409: somebody else wrote first, or a precondition failed."""


class AlreadyExists(Conflict):
    """409 on create: an object of that name exists."""


class Invalid(PermanentError):
    """400, 413 or 422: the server refuses the object; the message is the server's."""


class ProtocolError(PermanentError):
    """The other side broke the protocol: nonsense, too large, or of the wrong type."""
