"""How to start a daemon, and where it answers, by what its Lease notes."""

import socket
from pathlib import Path, PurePosixPath

import pytest

from liqod.apimachinery import labels
from liqod.cli import inspectorclient
from liqod.model.view.whereabouts import (
    Whereabouts,
    daemon_step,
    is_of_node,
    noted,
    read,
    start,
)


@pytest.mark.parametrize(
    ("found", "how", "where"),
    [
        (Whereabouts(), "start `liqod run`", ""),
        (
            Whereabouts(host="rome-1"),
            "start `liqod run` on rome-1",
            "it runs on rome-1: `liqod events` there",
        ),
        (
            Whereabouts(host="rome-1", unit="liqod@rome.service"),
            "`systemctl start liqod@rome.service` on rome-1",
            "it runs on rome-1: `liqod events` there",
        ),
        (
            Whereabouts(host="liqod-7", pod=True),
            "see `kubectl -n liqo rollout status deployment liqod`",
            "it runs in the cluster: `kubectl -n liqo exec -it deployment/liqod -- liqod events`",
        ),
    ],
)
def test_what_fits_how_it_runs_is_said(found: Whereabouts, how: str, where: str):
    assert read(noted(found)) == found
    assert start(found, "liqo") == how
    assert daemon_step(found, "liqo", "events") == where


def test_why_its_pod_is_not_ready_is_said_along_with_the_step():
    said = start(Whereabouts(pod=True), "liqo", "liqod-7: ErrImagePull: no such host")
    assert said == (
        "see `kubectl -n liqo rollout status deployment liqod` (liqod-7: ErrImagePull: no such "
        "host)"
    )


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"host": 7}'])
def test_what_cannot_be_read_says_nothing(text: str):
    assert read({labels.RUNS_AT: text}) == Whereabouts()
    assert read({}) == Whereabouts()


@pytest.mark.parametrize(
    ("path", "of_node"),
    [
        ("/run/liqod-node/machine.sock", True),
        ("/run/liqod-node/calls.sock", True),
        ("/run/liqod-node-rome/calls-6446.sock", True),
        ("/run/liqod/machine.sock", False),
        ("/run/liqod-node/node.sock", False),
        ("/run/liqod-rome/rome.sock", False),
    ],
)
def test_a_socket_of_liqod_node_is_told_from_a_daemons(path: str, of_node: bool):
    assert is_of_node(PurePosixPath(path)) == of_node


def test_beside_liqod_node_a_daemon_is_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("RUNTIME_DIRECTORY", str(tmp_path / "liqod"))
    monkeypatch.setattr("liqod.model.view.whereabouts.SHARED", PurePosixPath(tmp_path / "none"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    for name in ("liqod/rome", "liqod-node/machine", "liqod-node/calls", "liqod-node/calls-6446"):
        place = tmp_path / f"{name}.sock"
        place.parent.mkdir(exist_ok=True)
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(place))
    assert inspectorclient.find(None) == tmp_path / "liqod" / "rome.sock"
