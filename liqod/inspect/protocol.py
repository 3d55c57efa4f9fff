"""The messages between a viewer and the daemon over the inspector's websocket.

Each message is one JSON text frame, a struct tagged by ``type``. The daemon greets with
:class:`InspectorHello`; after :class:`Subscribe` it sends :class:`StateSnapshot`, then a
:class:`Update` for each change, numbered without gaps. Everything else is a request with an ``id``
of the client's choice; what answers it carries the same. Both sides ignore fields and message types
that they do not know, so that a newer one can talk to an older one; ``docs/inspector.md`` has the
rest. Pure.
"""

from typing import Any, Literal, get_args

import msgspec

from liqod.model.view.programinfo import ProgramInfo
from liqod.model.view.rows import EventRow, Ladder, Line, Queue, Task, Traffic, Watching
from liqod.model.view.state import Delta, LiveState

VERSION = 1
"""Of the protocol; raised only when an old viewer would misread what a new daemon sends."""
PATH = "/v1"
"""The resource that the websocket is opened on."""
AUDIENCE = "liqod"
"""Audience of the bearer tokens that clients over TCP prove themselves with."""

CLIENT_LIMIT = 64 * 1024
"""Bytes of one message to the daemon."""
SERVER_LIMIT = 8 * 1024 * 1024
"""Bytes of one message from the daemon."""
RATE, BURST = 20.0, 100
"""Messages a second that a client may send, and how many at once."""
REQUESTS = 8
"""Requests of one client that may be under way; further ones are refused as ``busy``."""
PART = 2000
"""Rows of one table in one part of a snapshot."""
BEHIND = 256
"""Updates that may wait for a client before it is cut off as too slow."""

TOO_SLOW, ABUSE, STOPPING, FULL = 4008, 4009, 4010, 4011
"""Codes that the daemon closes with: a reader fell behind, broke a limit, the daemon stops or
leads no more, there are too many clients."""

Verb = Literal[
    "peer", "unpeer", "offload", "unoffload", "cordon", "uncordon", "drain", "activate", "probe",
    "accept", "deny",
]  # fmt: skip
Code = Literal["unknown", "forbidden", "missing", "invalid", "busy", "failed"]
"""Why a request is refused: no such request here, the client may not, there is no such thing, the
request makes no sense, too many are under way, it was tried and failed."""


class InspectorRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"
):
    """Something a client asks; ``id`` comes back with each answer to it."""

    id: int


class Subscribe(msgspec.Struct, frozen=True, omit_defaults=True, tag="watch", tag_field="type"):
    """Send me a snapshot and then what changes; said again, a new snapshot.

    Attributes:
        protocol: the version that the client was written for.
        events: how many past events to send along, at most 1000.
        lines: how many past lines of the log to send along, at most 500.
    """

    protocol: int = VERSION
    events: int = 200
    lines: int = 200


class GetHistory(InspectorRequest, frozen=True, tag="history"):
    """Past values of one metric; answered by :class:`Series`.

    Attributes:
        metric: its name, such as ``rtt``; empty asks which there are (:class:`Metrics`).
        peer: of that peer; empty for the daemon's own.
        span: seconds back from now: up to 600 come by the second, up to 86,400 by the minute.
    """

    metric: str = ""
    peer: str = ""
    span: float = 60.0


class GetTasks(InspectorRequest, frozen=True, tag="tasks"):
    """The daemon's tasks; answered by :class:`Tasks`."""


class GetProgram(InspectorRequest, frozen=True, tag="program"):
    """The daemon's program and settings; answered by :class:`ProgramReport`."""


class Examine(InspectorRequest, frozen=True, tag="examine"):
    """Requests the doctor's findings; answered by :class:`Findings`.

    Attributes:
        peer: of that peer and this cluster; empty for all.
        probe: look now, with a write at the peer to time it (needs the right to act).
    """

    peer: str = ""
    probe: bool = False


class GetObject(InspectorRequest, frozen=True, tag="object"):
    """One Kubernetes object as YAML, without secrets; answered by :class:`Text`.

    Attributes:
        kind: its kind, such as ``Pod``, as in its manifest.
        namespace: its namespace here; empty for kinds that have none.
        peer: its remote object at that peer instead.
    """

    kind: str
    name: str
    namespace: str = ""
    peer: str = ""


class GetLogs(InspectorRequest, frozen=True, tag="logs"):
    """The log of a pod that runs on a peer; answered by any number of :class:`Text`.

    Attributes:
        namespace: of the pod, here.
        pod: its name.
        container: one of its containers; empty means the only or first one.
        follow: go on as it writes, until :class:`CancelRequest`.
        previous: of the run before this one.
        tail: no more than so many last lines.
    """

    namespace: str
    pod: str
    container: str = ""
    follow: bool = False
    previous: bool = False
    tail: int = 200


class Preview(InspectorRequest, frozen=True, tag="preview"):
    """Requests an action's plan; answered by :class:`ActionPlan`. Attributes as :class:`Act`."""

    verb: Verb
    subject: str
    options: dict[str, str] = {}


class Act(InspectorRequest, frozen=True, tag="act"):
    """Do something; answered by any number of :class:`ActionProgress`, then :class:`RequestDone`.

    Attributes:
        verb: what to do.
        subject: to whom or what: a peer (``peer``, ``unpeer``, ``cordon``, ``uncordon``,
            ``drain``, ``activate``, ``probe``), a namespace (``offload``, ``unoffload``), or who
            asks, by its cluster id or the entry's name (``accept``, ``deny``).
        options: of ``offload``: ``strategy`` (Local, Remote, LocalAndRemote) and ``selector``; of
            ``unpeer``: ``forget`` (true); of ``accept``: ``cpu``, ``memory``, ``pods`` (less than
            was asked), ``always`` and ``replace`` (true); of ``deny``: ``always`` (true).
    """

    verb: Verb
    subject: str
    options: dict[str, str] = {}


class CancelRequest(InspectorRequest, frozen=True, tag="cancel"):
    """Stop answering the request of that id; the answer to it is :class:`RequestDone`."""


ClientMessage = (
    Subscribe
    | GetHistory
    | GetTasks
    | GetProgram
    | Examine
    | GetObject
    | GetLogs
    | Preview
    | Act
    | CancelRequest
)


class _Unsolicited(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """Something that the daemon says unasked."""


class InspectorHello(_Unsolicited, frozen=True, tag="hello"):
    """The first message of the daemon.

    Attributes:
        protocol: the version it speaks.
        version: liqod's.
        cluster_id: its cluster.
        started: when it started, Unix seconds: another value after a reconnection means that it
            was restarted.
        at: its clock now.
        user: who the client is to it.
        acting: whether the client may act; the others only look.
        verbs: what it can do.
        server: URL of its cluster's API server.
        cluster_uid: UID of its cluster's namespace kube-system, which tells it from another of the
            same id; empty where that is not known yet, and of older daemons.
    """

    protocol: int
    version: str
    cluster_id: str
    started: float
    at: float
    user: str = ""
    acting: bool = False
    verbs: tuple[str, ...] = ()
    server: str = ""
    cluster_uid: str = ""


class StateSnapshot(_Unsolicited, frozen=True, tag="snapshot"):
    """Everything there is, in one message or several.

    Attributes:
        sequence: number of the last update that it holds.
        at: the daemon's clock.
        state: rows; those of several parts add up (:func:`liqod.model.view.state.join`).
        events: past ones, oldest first.
        lines: past ones, oldest first.
        more: another part follows before any update.
    """

    sequence: int
    at: float
    state: LiveState
    events: tuple[EventRow, ...] = ()
    lines: tuple[Line, ...] = ()
    more: bool = False


class Update(_Unsolicited, frozen=True, tag="update"):
    """The changes since the update before, or since the snapshot.

    Attributes:
        sequence: one more than that of the message before; anything else means that something was
            missed: watch again.
        at: the daemon's clock.
        delta: the change.
    """

    sequence: int
    at: float
    delta: Delta


class InspectorResponse(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"
):
    """Something that answers the request of that ``id``."""

    id: int


class Series(InspectorResponse, frozen=True, tag="series"):
    """Past values of one metric.

    Attributes:
        metric: its name.
        unit: ``seconds``, ``ratio``, ``bytes``, ``bytes/s``, ``1/s`` or empty for a count.
        peer: whose.
        end: when the last value was taken.
        step: seconds from one value to the next.
        values: oldest first; None where nothing was measured.
    """

    metric: str
    unit: str
    peer: str
    end: float
    step: float
    values: tuple[float | None, ...]


class Metrics(InspectorResponse, frozen=True, tag="metrics"):
    """The metrics of which there is a history: name and what it means; of peers, of the daemon."""

    peer: dict[str, str]
    daemon: dict[str, str]


class Tasks(InspectorResponse, frozen=True, tag="task_tree"):
    """The daemon's tasks, queues and requests at one moment.

    Attributes:
        tasks: in the order of the tree, the root first.
        queues: of all components.
        watches: all that are open.
        traffic: by API server.
        lag: seconds by which the event loop was late: worst of the last second, of the last minute.
        took: seconds that this look took the daemon.
    """

    tasks: tuple[Task, ...]
    queues: tuple[Queue, ...] = ()
    watches: tuple[Watching, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    lag: tuple[float, float] = (0.0, 0.0)
    took: float = 0.0


class Findings(InspectorResponse, frozen=True, tag="findings"):
    """The doctor's findings: this cluster's own ladder first."""

    ladders: tuple[Ladder, ...]


class Text(InspectorResponse, frozen=True, tag="text"):
    """Some text; ``last`` says that nothing follows."""

    text: str
    last: bool = True


class ProgramReport(InspectorResponse, frozen=True, tag="program_info"):
    """The daemon's program, and the settings that are in force.

    Attributes:
        program: versions, and how it was installed.
        settings: the configuration without secrets, table by table.
    """

    program: ProgramInfo
    settings: dict[str, Any] = {}


class ActionPlan(InspectorResponse, frozen=True, tag="plan"):
    """The plan of an action.

    Attributes:
        verb: the action.
        subject: to whom or what.
        changes: what it makes, changes or deletes, each in a few words.
        destructive: whether something is deleted: ask the user to type the subject's name.
        command: the command line that does the same.
    """

    verb: str
    subject: str
    changes: tuple[str, ...]
    destructive: bool
    command: str


class ActionProgress(InspectorResponse, frozen=True, tag="progress"):
    """The step that an action is at."""

    step: str


class RequestDone(InspectorResponse, frozen=True, tag="done"):
    """It is done; one sentence about the outcome."""

    text: str = ""


class RequestRefused(InspectorResponse, frozen=True, tag="refused"):
    """It is not done; ``id`` is -1 where the message could not be read at all."""

    code: Code
    reason: str


ServerMessage = (
    InspectorHello
    | StateSnapshot
    | Update
    | Series
    | Metrics
    | Tasks
    | Findings
    | Text
    | ProgramReport
    | ActionPlan
    | ActionProgress
    | RequestDone
    | RequestRefused
)


class Unreadable(ValueError):
    """A message breaks the protocol; the text says how."""


class RequestError(Exception):
    """A request is refused.

    Attributes:
        code: why, for a program; the text is for a person.
    """

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class _Tag(msgspec.Struct):
    type: str


encode = msgspec.json.Encoder().encode
"""A message as it is sent: UTF-8 text."""
_client = msgspec.json.Decoder(ClientMessage)
_server = msgspec.json.Decoder(ServerMessage)
_tag = msgspec.json.Decoder(_Tag)

_CLIENT_TAGS, _SERVER_TAGS = (
    frozenset(each.__struct_config__.tag for each in get_args(union))
    for union in (ClientMessage, ServerMessage)
)


def read_client(data: bytes | str) -> ClientMessage | None:
    """A client's message; None for a type that is not known here. Raises Unreadable."""
    found: ClientMessage | None = _read(data, _client, _CLIENT_TAGS)
    return found


def read_server(data: bytes | str) -> ServerMessage | None:
    """A daemon's message; None for a type that is not known here. Raises Unreadable."""
    found: ServerMessage | None = _read(data, _server, _SERVER_TAGS)
    return found


def _read(data: bytes | str, decoder: msgspec.json.Decoder[Any], known: frozenset[str]) -> Any:
    try:
        if _tag.decode(data).type not in known:
            return None
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Unreadable(str(error)) from error
