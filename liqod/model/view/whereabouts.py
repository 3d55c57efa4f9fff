"""Place of a cluster's daemon: the paths of its sockets, and the notes on its Lease. Pure.

It names the steps by which a person starts the daemon, and sends it requests.
"""

import glob
import re
from collections.abc import Mapping
from pathlib import PurePath, PurePosixPath

import msgspec

from liqod.apimachinery import labels

DEPLOYMENT = "liqod"
"""Name of the daemon's Deployment, where it was installed into the cluster."""


class Whereabouts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The process of a daemon, from its Lease.

    Attributes:
        host: name of the machine, or of the pod.
        unit: systemd's unit, if it is one of systemd's.
        pod: it is a pod of the cluster that it works for.
    """

    host: str = ""
    unit: str = ""
    pod: bool = False


def noted(found: Whereabouts) -> dict[str, str]:
    """The annotation of the Lease."""
    return {labels.RUNS_AT: msgspec.json.encode(found).decode()}


def read(annotations: dict[str, str]) -> Whereabouts:
    """The whereabouts in a Lease's annotations; empty where they are missing or unreadable."""
    try:
        return msgspec.json.decode(annotations.get(labels.RUNS_AT, "{}"), type=Whereabouts)
    except msgspec.DecodeError:
        return Whereabouts()


def start(found: Whereabouts, namespace: str, why: str = "") -> str:
    """The step that starts the daemon again.

    Args:
        found: how it ran when it led last.
        namespace: liqod's own.
        why: the reason why its pod is not ready; empty where none is known.
    """
    if found.pod:
        step = f"see `kubectl -n {namespace} rollout status deployment {DEPLOYMENT}`"
        return f"{step} ({why})" if why else step
    if found.unit:
        return f"`systemctl start {found.unit}` on {found.host}"
    return f"start `liqod run` on {found.host}" if found.host else "start `liqod run`"


def daemon_step(found: Whereabouts, namespace: str, verb: str) -> str:
    """The step by which the daemon itself answers a command; empty where its place is unknown."""
    if found.pod:
        return (
            f"it runs in the cluster: `kubectl -n {namespace} exec -it deployment/{DEPLOYMENT} -- "
            f"liqod {verb}`"
        )
    return f"it runs on {found.host}: `liqod {verb}` there" if found.host else ""


SHARED = PurePosixPath("/run/liqod")
"""The folder of daemons that run as root, or under systemd."""


_OF_NODE = re.compile(r"/liqod-node[^/]*/(machine|calls|calls-[0-9]+)\.sock")
"""Sockets of ``liqod node``, by which the daemon orders: no daemon shows its state there."""


def is_of_node(path: PurePath) -> bool:
    """True if a socket is one of ``liqod node``, whose folder is beside those of daemons."""
    return _OF_NODE.search(str(path)) is not None


def folders(environ: Mapping[str, str]) -> tuple[PurePosixPath, ...]:
    """The folders where daemons of this machine may have their sockets, the likeliest first."""
    own = environ.get("XDG_RUNTIME_DIR", "")
    places = [environ.get("RUNTIME_DIRECTORY", ""), str(SHARED), f"{own}/liqod" if own else ""]
    return tuple(dict.fromkeys(PurePosixPath(place) for place in places if place))


def file_name(cluster_id: str) -> str:
    """The socket's name in its folder."""
    return f"{cluster_id}.sock"


def patterns(environ: Mapping[str, str], cluster_id: str = "") -> tuple[str, ...]:
    """Shell patterns of the sockets that may exist, the likeliest first.

    Beside each folder are those of systemd's template units: ``/run/liqod-rome`` beside
    ``/run/liqod``.

    Args:
        environ: the environment.
        cluster_id: of this cluster only.
    """
    name = glob.escape(file_name(cluster_id)) if cluster_id else file_name("*")
    places = [glob.escape(str(folder)) for folder in folders(environ)]
    return tuple(f"{place}{beside}/{name}" for place in places for beside in ("", "-*"))
