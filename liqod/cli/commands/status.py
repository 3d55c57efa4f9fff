"""``status``: peers, nodes, namespaces and problems."""

import time

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.cli import output, report
from liqod.cli.frame import OUTPUTS, Frame, command, warn
from liqod.cli.options import LiqoNamespace, OnePeer
from liqod.cli.snapshotreader import take
from liqod.cli.statustext import render
from liqod.errors import ConfigError, LiqodError, TransientError, Unreachable
from liqod.kube.client import Client
from liqod.model.view.overview import Overview
from liqod.model.view.problems import dated

ASKING = 5.0
"""Seconds of ``--timeout`` that are kept for asking the daemon where the API server is down."""


@command(timeout=30.0, daemon=True, outputs=OUTPUTS, get=True)
async def status(
    frame: Frame,
    peer: OnePeer = "",
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Show peers, nodes, namespaces and problems.

    Problems come first, the worst of them at the top. Each has how long it lasts, where that is
    known, and how old the knowledge is, where it was not just read. In JSON these are `since` and
    `at`, in Unix seconds, and `objects` has the names of what is concerned. With a problem the exit
    status is 1. Pods of yours that wait, and what somebody meant so, are hints, marked ·, and leave
    it 0.

    It reads custom resources, so it works while the daemon is down. Where this cluster's daemon
    runs on this machine, the round trip, the silence and the backlog of each peer come from it.
    While the API server is down it shows what that daemon knows by itself, and ends with exit
    status 1. So it does where the daemon of --socket does not answer. With a PEER it also shows the
    slices with their verdicts, the conditions, and which pods wait there and why.

    The key is this cluster's, by which others know it (its SHA-256), and below it where they meet
    its daemon. MET BY says how a peer came: by an invitation, by discovery, at an address that
    somebody gave, by a policy, by its own request, or by a kubeconfig.

    \b
    Examples:
      liqod status
      liqod status milan
      liqod status -o json
      liqod status --get peers.0.api
    """
    from liqod.cli import live  # brings the websocket, which other commands do without

    daemon: report.Live | None = None
    silent = ""
    try:
        async with frame.client() as client:
            view, uid = await _read(client, liqo_namespace, peer, frame.timeout)
    except TransientError as error:
        seen = await live.instead(frame, error)
        view, daemon = report.from_daemon(seen, peer, error), report.figures(seen)
        warn(f"{view.problems[0].what}; this is what the daemon of {view.cluster_id} knows")
    else:
        try:
            named = frame.cluster_id
            told = await live.fetch_report(
                frame.socket, named or view.cluster_id, "" if named else uid
            )
            if told is not None:
                view, daemon = report.joined(view, told, peer), report.figures(told)
        except LiqodError as error:
            silent = str(error)
            warn(silent)
        if peer and not view.peers and view.knows_peers:
            raise ConfigError(f"there is no peer {peer}; `liqod status` lists them")
    now = time.time()
    view = msgspec.structs.replace(view, problems=dated(view.problems, now))
    if not frame.show({**msgspec.to_builtins(view), "live": daemon}):
        frame.print_text(render(view, output.width(), now=now, live=daemon), lines=True)
    if silent or view.source == "daemon" or not view.well:
        raise SystemExit(1)


async def _read(client: Client, namespace: str, peer: str, timeout: float) -> tuple[Overview, str]:
    """The status by custom resources, and the cluster's UID, since an id can stand twice.

    Raises:
        Unreachable: they do not in time; there is some left to ask the daemon.
    """
    patience = max(timeout - ASKING, timeout / 2)
    with trio.move_on_after(patience):
        snapshot = await take(client, namespace)
        return report.overview(snapshot, peer), snapshot.cluster_uid
    raise Unreachable(f"the API server has not answered within {patience:g} s")
