"""Asks a running daemon for its report: the one that is named, or that of a cluster."""

from pathlib import Path
from typing import Final

import trio

from liqod.cli import inspectorclient
from liqod.cli.frame import Frame, sentence
from liqod.cli.report import Seen
from liqod.errors import LiqodError
from liqod.inspect.protocol import Examine, Findings
from liqod.kube.credentials import credentials
from liqod.model.view.networkfacts import NetworkFacts

ALL: Final = Examine(id=1)
READ_ANEW: Final = 0.3
"""Seconds that the daemon takes to read the figures of its networks."""


async def _where(path: Path | None, cluster_id: str, uid: str) -> Path:
    """The socket that was named, else that of the cluster; raises as :func:`see`."""
    return inspectorclient.find(path) if path else await inspectorclient.of_cluster(cluster_id, uid)


async def see(path: Path | None, cluster_id: str, ask: Examine = ALL, uid: str = "") -> Seen:
    """Asks the daemon of that cluster for a report.

    Args:
        path: its socket, if that was named.
        cluster_id: else of which cluster.
        uid: distinguishes it from another of its id; empty for any of that id.
        ask: of whom it is to say what its doctor finds, and how.

    Raises:
        NoDaemon: none answers on this machine.
        ConfigError: several run here, and nothing says which is meant.
        LiqodError: it does not say it.
    """
    async with inspectorclient.connect(await _where(path, cluster_id, uid)) as viewer:
        found = await viewer.request(ask, Findings)
        first, state = await viewer.snapshot()
        return Seen(viewer.hello.cluster_id, first.at, state, found.ladders)


async def instead(frame: Frame, error: LiqodError) -> Seen:
    """Asks the daemon instead, where the API server fails with that error.

    Where neither a socket nor an id is named it is the one that works with the kubeconfig's API
    server: another cluster's would answer for the wrong one.

    Raises:
        LiqodError: that error, if no daemon can be asked; it says why where one should.
    """
    path = frame.socket
    try:
        if path is None and not frame.cluster_id:
            found = await credentials.load(frame.kubeconfig, frame.context or None)
            path = await inspectorclient.daemon_socket(found.server)
            if path is None and inspectorclient.here():
                raise LiqodError("no daemon of this machine works with it; else say --cluster-id")
        return await see(path, frame.cluster_id)
    except LiqodError as other:
        if path is None and isinstance(other, inspectorclient.NoDaemon):
            raise error from None
        text = f"{sentence(error)}; nor can the daemon be asked: {other}"
        raise LiqodError(text) from error


async def fetch_report(path: Path | None, cluster_id: str, uid: str = "") -> Seen | None:
    """The report of that daemon, None where none answers here; arguments as :func:`see`.

    Raises:
        LiqodError: the socket was named and does not answer.
    """
    try:
        return await see(path, cluster_id, uid=uid)
    except LiqodError:
        if path is not None:
            raise
        return None


async def networks(path: Path | None, cluster_id: str, uid: str = "") -> dict[str, NetworkFacts]:
    """The networks of peers as that daemon reports them; empty where none answers on this machine.

    Raises:
        LiqodError: the socket was named and does not answer.
    """
    try:
        async with inspectorclient.connect(await _where(path, cluster_id, uid)) as viewer:
            await viewer.snapshot()
            # Now that somebody looks the figures are read anew.
            await trio.sleep(READ_ANEW)
            return (await viewer.snapshot())[1].networks
    except LiqodError:
        if path is not None:
            raise
        return {}
