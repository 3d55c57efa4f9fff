"""What ``liqod doctor`` finds of the cluster that the kubeconfig leads to, daemon or not.

The API server is asked in any case, from below: does it answer, is liqod installed, does its daemon
run. Where that daemon is at hand, its own ladders are taken, which say more.
"""

import time
from pathlib import Path
from typing import Literal

import msgspec
import trio

from liqod.cli import inspector
from liqod.cli.clusters import AGENT
from liqod.cli.frame import Frame, warn
from liqod.cli.snapshot import take
from liqod.errors import ConfigError, LiqodError, NotFound, TransientError, Unauthorized
from liqod.inspect.protocol import Examine, Findings
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.model.view import ladder
from liqod.model.view.overview import overview
from liqod.model.view.rows import Ladder
from liqod.model.view.snapshot import Snapshot

READING = 15.0
"""Seconds for everything that the API server is asked."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        cluster_id: of which cluster; its URL where it does not tell its id.
        source: whether its daemon was asked, or the API server alone.
        ladders: this cluster's own first.
        silent: why the daemon was not asked, where it was looked for.
    """

    cluster_id: str
    source: Literal["daemon", "resources"]
    ladders: tuple[Ladder, ...]
    silent: str = ""


async def examine(frame: Frame, namespace: str, ask: Examine) -> Diagnosis:
    """Everything that can be found out of the cluster that the options name.

    Raises:
        ConfigError: there is no such peer, or nothing says which cluster is meant.
        LiqodError: the daemon that was named does not answer.
    """
    if frame.socket is not None or frame.cluster_id:
        return await _by_daemon(await inspector.place(frame.socket, frame.cluster_id), ask)
    try:
        found = await credentials.load(frame.kubeconfig, frame.context or None)
    except ConfigError:
        if frame.kubeconfig is not None:
            raise
        return await _by_daemon(await inspector.place(None), ask)
    async with Client(found, user_agent=AGENT) as client:
        return await of_cluster(client, namespace, ask)


async def _by_daemon(where: Path, ask: Examine) -> Diagnosis:
    async with inspector.connect(where) as viewer:
        found = await viewer.ask(ask, Findings)
        return Diagnosis(viewer.hello.cluster_id, "daemon", found.ladders)


async def of_cluster(client: Client, namespace: str, ask: Examine) -> Diagnosis:
    """What is found of the cluster of a client; arguments and errors as :func:`examine`."""
    began = time.monotonic()
    error: LiqodError | None = None
    with trio.move_on_after(READING) as patience:
        try:
            version = await _version(client)
            took = time.monotonic() - began
            snapshot = await take(client, namespace)
        except LiqodError as failure:
            error = failure
    if patience.cancelled_caught:
        error = TransientError(f"it has not answered within {READING:g} s")
    if error is not None:
        return await _unread(client, error, ask)
    near = inspector.here(snapshot.cluster_id)
    if near:
        try:
            found = await _by_daemon(near[0], ask)
        except ConfigError:
            raise
        except LiqodError as failure:
            return _alone(snapshot, ask, version, took, str(failure))
        own, *peers = found.ladders
        ladders = (ladder.beside(own, snapshot), *peers)
        return msgspec.structs.replace(found, ladders=ladders)
    return _alone(snapshot, ask, version, took, "its daemon has no socket on this machine")


async def _version(client: Client) -> str:
    """The API server's version. Raises a LiqodError."""
    body = (await client.raw("GET", "/version")).body
    try:
        return str(msgspec.json.decode(body, type=dict[str, str]).get("gitVersion", ""))
    except (msgspec.DecodeError, UnicodeError):
        return ""


async def _unread(client: Client, error: LiqodError, ask: Examine) -> Diagnosis:
    """The API server does not tell: the daemon that works with it may know more."""
    if isinstance(error, NotFound):
        return Diagnosis(client.server, "resources", (ladder.uninstalled(str(error)),))
    remedy = "check this cluster's API server, and the address in the kubeconfig"
    if isinstance(error, Unauthorized):
        remedy = "use credentials that this cluster's API server accepts"
    own = ladder.unreadable(str(error), remedy)
    near = await inspector.beside(client.server)
    if near is None:
        return Diagnosis(client.server, "resources", (own,))
    try:
        found = await _by_daemon(near, ask)
    except LiqodError as failure:
        return Diagnosis(client.server, "resources", (own,), str(failure))
    # What the daemon still says of its API server may be some seconds old.
    rest = tuple(row for row in found.ladders[0].checks if row.layer not in ("server", "watches"))
    merged = Ladder("", (own.checks[0], *rest))
    return msgspec.structs.replace(found, ladders=(merged, *found.ladders[1:]))


def _alone(snapshot: Snapshot, ask: Examine, version: str, took: float, silent: str) -> Diagnosis:
    ladders = ladder.ladders(snapshot, overview(snapshot).problems, version, took)
    if ask.peer:
        known = [each.peer for each in ladders[1:]]
        if ask.peer not in known:
            raise ConfigError(f"there is no peer {ask.peer}")
        ladders = tuple(each for each in ladders if each.peer in ("", ask.peer))
    if ask.probe:
        warn(f"nothing is tried anew: {silent}")
    return Diagnosis(snapshot.cluster_id, "resources", ladders, silent)
