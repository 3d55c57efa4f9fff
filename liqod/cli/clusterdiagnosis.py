"""Finds, for ``liqod doctor``, what is wrong in the kubeconfig's cluster, daemon or not.

The API server is asked in any case, from below: does it answer, is liqod installed, does its daemon
run. Where that daemon is at hand, its own ladders are taken, which say more.
"""

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec
import trio

from liqod.cli import inspectorclient, live, report
from liqod.cli.clusters import AGENT
from liqod.cli.frame import Frame, warn
from liqod.cli.report import Seen
from liqod.cli.snapshotreader import take
from liqod.cluster.ownid import NotInstalled
from liqod.errors import ConfigError, LiqodError, NotFound, TransientError, Unauthorized
from liqod.inspect.protocol import Examine
from liqod.kube.client import Client
from liqod.kube.credentials import credentials
from liqod.model.view.facts import ClusterFacts, Trip
from liqod.model.view.problems import Problem, merged, of_peer
from liqod.model.view.rows import Ladder
from liqod.model.view.snapshot import Snapshot
from liqod.plugins.examination import ladder
from liqod.procedures import askingnames

ANSWERED = Trip(0.0, 0.0)
READING = 15.0
"""Seconds for everything that the API server is asked."""


class Diagnosis(msgspec.Struct, frozen=True):
    """The findings of ``liqod doctor``.

    Attributes:
        cluster_id: id of the cluster; its URL where it does not report its id.
        source: whether its daemon was asked, or the API server alone.
        ladders: this cluster's own first.
        silent: why the daemon was not asked, where it was looked for.
        problems: all that is wrong, as ``liqod status`` has it, the worst first.
    """

    cluster_id: str
    source: Literal["daemon", "resources"]
    ladders: tuple[Ladder, ...]
    silent: str = ""
    problems: tuple[Problem, ...] = ()


async def examine(frame: Frame, namespace: str, ask: Examine) -> Diagnosis:
    """Everything that can be found out of the cluster that the options name.

    Raises:
        ConfigError: there is no such peer, or nothing says which cluster is meant.
        LiqodError: the daemon that was named does not answer.
    """
    if frame.socket is not None or frame.cluster_id:
        seen = await _see(await inspectorclient.place(frame.socket, frame.cluster_id), ask)
        return of_daemon(seen, seen.state.problems, seen.ladders, ask)
    try:
        found = await credentials.load(frame.kubeconfig, frame.context or None)
    except ConfigError:
        if frame.kubeconfig is not None:
            raise
        seen = await _see(await inspectorclient.place(None), ask)
        return of_daemon(seen, seen.state.problems, seen.ladders, ask)
    async with Client(found, user_agent=AGENT) as client:
        return await of_cluster(client, namespace, ask)


async def _see(where: Path, ask: Examine) -> Seen:
    return await live.see(where, "", ask)


def of_daemon(
    seen: Seen, problems: Iterable[Problem], ladders: tuple[Ladder, ...], ask: Examine
) -> Diagnosis:
    """The diagnosis by a daemon's own report.

    Args:
        seen: the report.
        problems: what custom resources show.
        ladders: what its doctor found, and what else is known of these layers.
        ask: of whom it was asked.
    """
    found = merged((*problems, *report.daemon_problems(seen.state)), ladders)
    return Diagnosis(seen.cluster_id, "daemon", ladders, problems=of_peer(found, ask.peer))


async def of_cluster(client: Client, namespace: str, ask: Examine) -> Diagnosis:
    """The diagnosis of the cluster of a client; arguments and errors as :func:`examine`."""
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
    shared = await askingnames.with_answer(client, snapshot.services, namespace)
    snapshot = msgspec.structs.replace(snapshot, services=shared)
    if inspectorclient.here(snapshot.cluster_id):
        try:
            near = await inspectorclient.of_cluster(snapshot.cluster_id, snapshot.cluster_uid)
            seen = await _see(near, ask)
        except ConfigError:
            raise
        except LiqodError as failure:
            return alone(snapshot, ask, version, took, str(failure))
        snapshot = report.beside(snapshot, seen.state.daemon)
        own, *others = seen.ladders
        ladders = (report.completed(own, snapshot), *others)
        return of_daemon(seen, report.problems(snapshot), ladders, ask)
    return alone(snapshot, ask, version, took, "its daemon has no socket on this machine")


async def _version(client: Client) -> str:
    """The API server's version. Raises a LiqodError."""
    body = (await client.raw("GET", "/version")).body
    try:
        return str(msgspec.json.decode(body, type=dict[str, str]).get("gitVersion", ""))
    except (msgspec.DecodeError, UnicodeError):
        return ""


async def _unread(client: Client, error: LiqodError, ask: Examine) -> Diagnosis:
    """The diagnosis where the API server fails: the daemon that works with it may know more."""
    if isinstance(error, NotFound):
        why = error.problem if isinstance(error, NotInstalled) else str(error)
        return _of_one(client.server, ClusterFacts(now=0.0, api=ANSWERED, uninstalled=why))
    refused = isinstance(error, Unauthorized)
    failed = ClusterFacts(now=0.0, api=Trip(0.0, 0.0, str(error), refused=refused))
    near = await inspectorclient.daemon_socket(client.server)
    if near is None:
        return _of_one(client.server, failed)
    try:
        seen = await _see(near, ask)
    except LiqodError as failure:
        return _of_one(client.server, failed, str(failure))
    # What the daemon still says of its API server may be some seconds old.
    rest = tuple(row for row in seen.ladders[0].checks if row.layer not in ("server", "watches"))
    merged = Ladder("", (*ladder(failed).checks, *rest))
    return of_daemon(seen, seen.state.problems, (merged, *seen.ladders[1:]), ask)


def _of_one(whose: str, known: ClusterFacts, silent: str = "") -> Diagnosis:
    """The diagnosis where nothing but this cluster's own ladder is known."""
    own = ladder(known)
    return Diagnosis(whose, "resources", (own,), silent, merged((), (own,)))


def alone(snapshot: Snapshot, ask: Examine, version: str, took: float, silent: str) -> Diagnosis:
    """The diagnosis by the objects, where no daemon can be asked; errors as :func:`examine`.

    Args:
        snapshot: the objects.
        ask: of whom it is asked.
        version: of the API server.
        took: seconds that it took to answer.
        silent: why no daemon was asked.
    """
    problems = report.problems(snapshot)
    found = report.ladders(snapshot, version, took)
    if ask.peer:
        known = [each.peer for each in found[1:]]
        if ask.peer not in known:
            raise ConfigError(f"there is no peer {ask.peer}; `liqod status` lists them")
        found = tuple(each for each in found if each.peer in ("", ask.peer))
    if ask.probe:
        warn(f"nothing is tried anew: {silent}")
    everything = of_peer(merged(problems, found), ask.peer)
    return Diagnosis(snapshot.cluster_id, "resources", found, silent, everything)
