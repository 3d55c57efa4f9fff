"""The messages between a viewer and the daemon over the inspector's websocket.

Each message is one JSON text frame, a struct tagged by ``type``. The daemon greets with
:class:`InspectorHello`; after :class:`Subscribe` it sends :class:`StateSnapshot`, then a
:class:`Update` for each change, numbered without gaps. Every other message is a request with an
``id`` of the client's choice; its responses carry the same. Both sides ignore unknown fields and
message types, so that newer and older versions can talk to each other; the rest is in
``docs/reference/inspector.md``. Pure.
"""

from typing import Any, Literal, get_args

import msgspec

from liqod.model.view.programinfo import ProgramInfo
from liqod.model.view.rows import EventRow, Ladder, Line, Queue, Task, Traffic, Watching
from liqod.model.view.state import Delta, LiveState

VERSION = 1
"""Version of the protocol; raised only when an old viewer would misread a new daemon's messages."""
PATH = "/v1"
"""The resource of the websocket."""
AUDIENCE = "liqod"
"""Audience of the bearer tokens that authenticate clients over TCP."""

CLIENT_LIMIT = 64 * 1024
"""Most bytes of one message to the daemon."""
SERVER_LIMIT = 8 * 1024 * 1024
"""Most bytes of one message from the daemon."""
RATE, BURST = 20.0, 100
"""Messages that a client may send, per second and at once."""
REQUESTS = 8
"""Most concurrent requests of one client; further ones are refused as ``busy``."""
PART = 2000
"""Most rows of one table in one part of a snapshot."""
BEHIND = 256
"""Most updates that wait for a client before it is cut off as too slow."""

TOO_SLOW, ABUSE, STOPPING, FULL = 4008, 4009, 4010, 4011
"""Close codes of the daemon: a reader fell behind, broke a limit, the daemon stops or has lost
leadership, there are too many clients."""

Verb = Literal[
    "peer", "unpeer", "offload", "unoffload", "cordon", "uncordon", "drain", "activate", "probe",
    "accept", "deny",
]  # fmt: skip
Code = Literal["unknown", "forbidden", "missing", "invalid", "busy", "failed"]
"""Codes of refused requests: unknown request, no permission, no such object, invalid request, too
many requests in progress, tried and failed."""


class InspectorRequest(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"
):
    """A request of a client; each response to it carries its ``id``."""

    id: int


class Subscribe(msgspec.Struct, frozen=True, omit_defaults=True, tag="watch", tag_field="type"):
    """Requests a snapshot and then the changes; repeated, a new snapshot.

    Attributes:
        protocol: the version that the client was written for.
        events: number of past events to include, at most 1000.
        lines: number of past log lines to include, at most 500.
    """

    protocol: int = VERSION
    events: int = 200
    lines: int = 200


class GetHistory(InspectorRequest, frozen=True, tag="history"):
    """Requests past values of one metric; answered by :class:`Series`.

    Attributes:
        metric: its name, such as ``rtt``; empty requests the list (:class:`Metrics`).
        peer: id of the peer; empty for the daemon's own metrics.
        span: seconds back from now: up to 600 come by the second, up to 86,400 by the minute.
    """

    metric: str = ""
    peer: str = ""
    span: float = 60.0


class GetTasks(InspectorRequest, frozen=True, tag="tasks"):
    """Requests the daemon's tasks; answered by :class:`Tasks`."""


class GetProgram(InspectorRequest, frozen=True, tag="program"):
    """Requests the daemon's program and settings; answered by :class:`ProgramReport`."""


class Examine(InspectorRequest, frozen=True, tag="examine"):
    """Requests the doctor's findings; answered by :class:`Findings`.

    Attributes:
        peer: for that peer and this cluster; empty for all.
        probe: check now, with a timed write at the peer (needs the right to act).
    """

    peer: str = ""
    probe: bool = False


class GetObject(InspectorRequest, frozen=True, tag="object"):
    """Requests a Kubernetes object as YAML, without secrets; answered by :class:`Text`.

    Attributes:
        kind: its kind, such as ``Pod``, as in its manifest.
        namespace: its namespace in this cluster; empty for kinds that have none.
        peer: requests its remote object at that peer instead.
    """

    kind: str
    name: str
    namespace: str = ""
    peer: str = ""


class GetLogs(InspectorRequest, frozen=True, tag="logs"):
    """Requests the log of a pod that runs on a peer; answered by any number of :class:`Text`.

    Attributes:
        namespace: of the pod, in this cluster.
        pod: its name.
        container: one of its containers; empty means the only or first one.
        follow: continue with new lines, until :class:`CancelRequest`.
        previous: of the run before this one.
        tail: at most so many last lines.
    """

    namespace: str
    pod: str
    container: str = ""
    follow: bool = False
    previous: bool = False
    tail: int = 200


class ExplainPod(InspectorRequest, frozen=True, tag="explain"):
    """Requests each node's verdict on a pod of an offloaded namespace; answered by :class:`Text`.

    Attributes:
        namespace: of the pod, in this cluster.
        pod: its name.
    """

    namespace: str
    pod: str


class Preview(InspectorRequest, frozen=True, tag="preview"):
    """Requests an action's plan; answered by :class:`ActionPlan`. Attributes as :class:`Act`."""

    verb: Verb
    subject: str
    options: dict[str, str] = {}


class Act(InspectorRequest, frozen=True, tag="act"):
    """Requests an action; answered by :class:`ActionProgress` messages, then :class:`RequestDone`.

    Attributes:
        verb: the action.
        subject: its target: a peer (``peer``, ``unpeer``, ``cordon``, ``uncordon``,
            ``drain``, ``activate``, ``probe``), a namespace (``offload``, ``unoffload``), or a
            requester, by its cluster id or the entry's name (``accept``, ``deny``).
        options: of ``offload``: ``strategy`` (Local, Remote, LocalAndRemote) and ``selector``; of
            ``unpeer``: ``forget`` (true); of ``accept``: ``cpu``, ``memory``, ``pods`` (less than
            requested), ``always`` and ``replace`` (true); of ``deny``: ``always`` (true).
    """

    verb: Verb
    subject: str
    options: dict[str, str] = {}


class CancelRequest(InspectorRequest, frozen=True, tag="cancel"):
    """Cancels the request of that id, which is then answered by :class:`RequestDone`."""


ClientMessage = (
    Subscribe
    | GetHistory
    | GetTasks
    | GetProgram
    | Examine
    | GetObject
    | GetLogs
    | ExplainPod
    | Preview
    | Act
    | CancelRequest
)


class _Unsolicited(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """A message that the daemon sends without a request."""


class InspectorHello(_Unsolicited, frozen=True, tag="hello"):
    """The first message of the daemon.

    Attributes:
        protocol: its protocol version.
        version: liqod's.
        cluster_id: its cluster.
        started: when it started, Unix seconds: another value after a reconnection means that it
            was restarted.
        at: its clock now.
        user: the client's user name.
        acting: whether the client may act; else it may only look.
        verbs: its actions.
        server: URL of its cluster's API server.
        cluster_uid: UID of its cluster's namespace kube-system, which distinguishes it from another
            of the same id; empty while unknown, and from older daemons.
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
    """The complete state, in one message or several.

    Attributes:
        sequence: number of the last update that it contains.
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
        sequence: one more than that of the message before; any other number means that an update
            was missed: watch again.
        at: the daemon's clock.
        delta: the change.
    """

    sequence: int
    at: float
    delta: Delta


class InspectorResponse(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"
):
    """A response to the request of that ``id``."""

    id: int


class Series(InspectorResponse, frozen=True, tag="series"):
    """Past values of one metric.

    Attributes:
        metric: its name.
        unit: ``seconds``, ``ratio``, ``bytes``, ``bytes/s``, ``1/s`` or empty for a count.
        peer: id of the peer; empty for the daemon's own.
        end: time of the last value.
        step: seconds from one value to the next.
        values: oldest first; None for those not measured.
    """

    metric: str
    unit: str
    peer: str
    end: float
    step: float
    values: tuple[float | None, ...]


class Metrics(InspectorResponse, frozen=True, tag="metrics"):
    """The metrics with a history: name and meaning; of peers, of the daemon."""

    peer: dict[str, str]
    daemon: dict[str, str]


class Tasks(InspectorResponse, frozen=True, tag="task_tree"):
    """The daemon's tasks, queues and requests at one moment.

    Attributes:
        tasks: in the order of the tree, the root first.
        queues: of all components.
        watches: all open watches.
        traffic: by API server.
        lag: seconds by which the event loop was late: worst of the last second, of the last minute.
        took: seconds that the daemon needed for this list.
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
    """A piece of text; ``last`` marks the final one."""

    text: str
    last: bool = True


class ProgramReport(InspectorResponse, frozen=True, tag="program_info"):
    """The daemon's program, and its current settings.

    Attributes:
        program: versions, and the kind of installation.
        settings: the configuration without secrets, table by table.
    """

    program: ProgramInfo
    settings: dict[str, Any] = {}


class ActionPlan(InspectorResponse, frozen=True, tag="plan"):
    """The plan of an action.

    Attributes:
        verb: the action.
        subject: its target.
        changes: the objects it creates, changes or deletes, each in a few words.
        destructive: whether an object is deleted: require the user to type the subject's name.
        command: the command line that does the same.
    """

    verb: str
    subject: str
    changes: tuple[str, ...]
    destructive: bool
    command: str


class ActionProgress(InspectorResponse, frozen=True, tag="progress"):
    """The current step of an action."""

    step: str


class RequestDone(InspectorResponse, frozen=True, tag="done"):
    """A request is done; one sentence about the outcome."""

    text: str = ""


class RequestRefused(InspectorResponse, frozen=True, tag="refused"):
    """A request is refused; ``id`` is -1 if the message could not be read at all."""

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
    """A message breaks the protocol; the text gives the fault."""


class RequestError(Exception):
    """A request is refused.

    Attributes:
        code: the reason, for programs; the text is for people.
    """

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class _Tag(msgspec.Struct):
    type: str


encode = msgspec.json.Encoder().encode
"""An encoded message: UTF-8 text."""
_client = msgspec.json.Decoder(ClientMessage)
_server = msgspec.json.Decoder(ServerMessage)
_tag = msgspec.json.Decoder(_Tag)

_CLIENT_TAGS, _SERVER_TAGS = (
    frozenset(each.__struct_config__.tag for each in get_args(union))
    for union in (ClientMessage, ServerMessage)
)


def read_client(data: bytes | str) -> ClientMessage | None:
    """Decode a client's message; None for an unknown type. Raises Unreadable."""
    found: ClientMessage | None = _read(data, _client, _CLIENT_TAGS)
    return found


def read_server(data: bytes | str) -> ServerMessage | None:
    """Decode a daemon's message; None for an unknown type. Raises Unreadable."""
    found: ServerMessage | None = _read(data, _server, _SERVER_TAGS)
    return found


def _read(data: bytes | str, decoder: msgspec.json.Decoder[Any], known: frozenset[str]) -> Any:
    try:
        if _tag.decode(data).type not in known:
            return None
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Unreadable(str(error)) from error
