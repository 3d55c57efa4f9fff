"""The bundle of a bug report: a file with what a maintainer asks for first.

It has the versions of the command, the daemon and the cluster, and how both programs were
installed; the daemon's settings, state, events, log, tasks and findings; Liqo's objects with their
conditions, the pods of the installation and the last Events. Everything goes through
:mod:`liqod.model.view.redact` on its way into the file.
"""

import io
import tarfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import (
    CUSTOM_RESOURCES,
    DAEMON_SETS,
    DEPLOYMENTS,
    EVENTS,
    NODES,
    PODS,
    Kind,
)
from liqod.apimachinery.meta import Partial
from liqod.cli import files
from liqod.cli.frame import Frame
from liqod.errors import LiqodError
from liqod.inspect.protocol import (
    Examine,
    Findings,
    GetHistory,
    GetProgram,
    GetTasks,
    Metrics,
    ProgramReport,
    Series,
    Tasks,
)
from liqod.kube.client import Client
from liqod.kube.definitions import name_of
from liqod.kube.recorder import REPORTER
from liqod.kube.selection import EVERY, Selection
from liqod.model.view.figures import counted
from liqod.model.view.redact import redact, redact_value
from liqod.resources import DEFINITIONS
from liqod.runtime import programinfo
from liqod.runtime.progress import Step

if TYPE_CHECKING:
    from liqod.cli.inspectorclient import InspectorClient

BUNDLED = ("rtt", "loss", "lag", "backlog", "cpu", "rss")
"""Metrics of which a bundle has the last ten minutes."""
POD_LIMIT = 500
EVENT_LIMIT = 500
BUNDLING = 120.0
"""Seconds that a bundle may take."""
TELLING = 10.0
"""Seconds that a daemon may take to tell of its program."""


async def pack(frame: Frame, path: Path, namespace: str) -> None:
    """Pack a bundle into a private file, and say what is in it and what is not.

    Args:
        frame: of the command.
        path: the file.
        namespace: liqod's own.

    Raises:
        ConfigError: the file cannot be written.
    """
    files.check_place(path)
    frame.allow(BUNDLING)
    packed: dict[str, Any] = {
        "about.json": {"packed": time.time(), "command": programinfo.look()},
    }
    frame.progress("ask the daemon")
    try:
        async with frame.daemon() as viewer:
            packed.update(await _daemon_files(viewer))
    except LiqodError as error:
        _lacks(packed, "daemon-error.json", error, frame)
    frame.progress("read the objects")
    try:
        async with frame.client() as client:
            packed.update(await _object_files(client, namespace))
    except LiqodError as error:
        _lacks(packed, "objects-error.json", error, frame)
    write(path, packed)
    frame.print_text(
        f"{path}: {counted(len(packed), 'file')}, without keys, tokens and contents of Secrets"
    )


def _lacks(packed: dict[str, Any], name: str, error: LiqodError, frame: Frame) -> None:
    """Put into the bundle, and say, why something is not in it."""
    packed[name] = str(error)
    frame.progress(Step(frame.progress.name, str(error)))
    frame.progress.failed()


async def _daemon_files(viewer: "InspectorClient") -> dict[str, Any]:
    first, state = await viewer.snapshot(events=1000, lines=500)
    found: dict[str, Any] = {
        "hello.json": viewer.hello,
        "state.json": state,
        "events.json": first.events,
        "log.json": first.lines,
        "daemon.json": await _program(viewer),
        "tasks.json": await viewer.request(GetTasks(id=viewer.number()), Tasks),
        "doctor.json": await viewer.request(Examine(id=viewer.number()), Findings),
    }
    known = await viewer.request(GetHistory(id=viewer.number()), Metrics)
    series = []
    for whose in ("", *sorted(state.peers)):
        for name in known.peer if whose else known.daemon:
            if name in BUNDLED:
                ask = GetHistory(id=viewer.number(), metric=name, peer=whose, span=600.0)
                series.append(await viewer.request(ask, Series))
    return {**found, "history.json": series}


async def _program(viewer: "InspectorClient") -> ProgramReport | dict[str, str]:
    """The daemon's program and settings; one of an older version does not tell them."""
    with trio.move_on_after(TELLING):
        return await viewer.request(GetProgram(id=viewer.number()), ProgramReport)
    return {"error": "the daemon does not tell: it is of an older version"}


async def _object_files(client: Client, namespace: str) -> dict[str, Any]:
    kinds: list[Kind] = [each.resource.KIND for each in DEFINITIONS]
    files: dict[str, Any] = {
        "kubernetes.json": msgspec.json.decode((await client.raw("GET", "/version")).body),
        "definitions.json": await _revisions(client),
        "events-of-objects.json": await _events(client, namespace),
    }
    for kind in (DEPLOYMENTS, DAEMON_SETS, PODS):
        own = await _objects(client, kind, Selection(namespace))
        files[f"installation/{kind.plural}.json"] = own[:POD_LIMIT]
    for kind in kinds:
        files[f"objects/{kind.plural}.json"] = await _objects(client, kind)
    virtual = f"{labels.TYPE}={labels.VIRTUAL_NODE_TYPE}"
    files["objects/nodes.json"] = await _objects(client, NODES, Selection(labels=virtual))
    for node in files["objects/nodes.json"]:
        name = node.get("metadata", {}).get("name", "")
        found = await _objects(client, PODS, Selection(fields=f"spec.nodeName={name}"))
        files[f"objects/pods-{name}.json"] = found[:POD_LIMIT]
    return files


async def _revisions(client: Client) -> dict[str, str]:
    """The revision of each custom resource of Liqo's that is installed; empty for none."""
    try:
        listed = await client.list(CUSTOM_RESOURCES, decode=Partial)
    except LiqodError as error:
        return {"error": str(error)}
    return {
        each.metadata.name: each.metadata.annotations.get(labels.CRD_REVISION, "")
        for each in listed
        if each.metadata.name in {name_of(one.resource.KIND) for one in DEFINITIONS}
    }


async def _events(client: Client, namespace: str) -> list[dict[str, Any]]:
    """The last Events that liqod wrote, and those in its own namespace."""
    found = await _objects(client, EVENTS, Selection(fields=f"source={REPORTER}"))
    found += await _objects(client, EVENTS, Selection(namespace))
    by_uid = {each.get("metadata", {}).get("uid", ""): each for each in found}
    return sorted(by_uid.values(), key=_last)[-EVENT_LIMIT:]


def _last(event: dict[str, Any]) -> str:
    """When an Event was last seen, as text that sorts by time."""
    return str(event.get("lastTimestamp") or event.get("eventTime") or "")


async def _objects(
    client: Client, kind: Kind, selection: Selection = EVERY
) -> list[dict[str, Any]]:
    try:
        found = await client.list(kind, selection)
    except LiqodError as error:
        return [{"error": str(error)}]
    return [redact({"kind": kind.name, **each}) for each in found]


def write(path: Path, packed: dict[str, Any]) -> None:
    """A bundle with these files, each redacted once more whatever it is, readable by its owner.

    Raises:
        ConfigError: it cannot be written.
    """
    data_of = io.BytesIO()
    with tarfile.open(fileobj=data_of, mode="w:gz") as archive:
        for name, value in packed.items():
            plain = redact_value(msgspec.to_builtins(value))
            data = msgspec.json.format(msgspec.json.encode(plain), indent=1)
            entry = tarfile.TarInfo(f"liqod/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(time.time()), 0o600
            archive.addfile(entry, io.BytesIO(data))
    files.write_private(path, data_of.getvalue())
