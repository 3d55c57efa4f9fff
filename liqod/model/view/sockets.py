"""Paths of the inspector's sockets: one name for each cluster, in a few folders. Pure."""

import glob
from collections.abc import Mapping
from pathlib import PurePosixPath

SHARED = PurePosixPath("/run/liqod")
"""The folder of daemons that run as root, or under systemd."""


def folders(environ: Mapping[str, str]) -> tuple[PurePosixPath, ...]:
    """Where daemons of this machine may have their sockets, the likeliest first."""
    own = environ.get("XDG_RUNTIME_DIR", "")
    places = [environ.get("RUNTIME_DIRECTORY", ""), str(SHARED), f"{own}/liqod" if own else ""]
    return tuple(dict.fromkeys(PurePosixPath(place) for place in places if place))


def file_name(cluster_id: str) -> str:
    """The socket's name in its folder."""
    return f"{cluster_id}.sock"


def patterns(environ: Mapping[str, str], cluster_id: str = "") -> tuple[str, ...]:
    """Shell patterns of the sockets that may be there, the likeliest first.

    Beside each folder are those of systemd's template units: ``/run/liqod-rome`` beside
    ``/run/liqod``.

    Args:
        environ: the environment.
        cluster_id: of this cluster only.
    """
    name = glob.escape(file_name(cluster_id)) if cluster_id else file_name("*")
    places = [glob.escape(str(folder)) for folder in folders(environ)]
    return tuple(f"{place}{beside}/{name}" for place in places for beside in ("", "-*"))
