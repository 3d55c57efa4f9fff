"""The shell completes what the kubeconfig's cluster has, and says nothing where it cannot."""

import os
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod.apimachinery.kinds import NAMESPACES
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.resources import FOREIGN_CLUSTERS
from simulator import EmbeddedCluster
from tests.simulated.borrower import define, eventually
from tests.testbed import virtualtime


async def completed(line: str, kubeconfig: Path) -> tuple[list[str], str]:
    """Returns the completions of a line's last word, as bash asks for them, and the messages."""
    words = line.split(" ")
    environ = {
        **os.environ,
        "KUBECONFIG": str(kubeconfig),
        "_LIQOD_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    with virtualtime.real():
        done = await trio.run_process(
            (sys.executable, "-m", "liqod"),
            check=False,
            capture_stdout=True,
            capture_stderr=True,
            env=environ,
        )
    return done.stdout.decode().split(), done.stderr.decode()


async def offers(line: str, kubeconfig: Path, wanted: list[str]) -> bool:
    """True if exactly these are offered; any other offer fails at once."""
    words, said = await completed(line, kubeconfig)
    assert not set(words) - set(wanted), words
    assert said == ""
    return words == wanted


@pytest.mark.long
async def test_peers_and_namespaces_are_completed(tmp_path: Path):
    async with (
        EmbeddedCluster("rome") as cluster,
        Client(from_kubeconfig(cluster.kubeconfig)) as admin,
    ):
        await define(admin)
        for name in ("milan", "modena", "turin"):
            await admin.create(
                FOREIGN_CLUSTERS, {"metadata": {"name": name}, "spec": {"clusterID": name}}
            )
        await admin.create(NAMESPACES, {"metadata": {"name": "shop"}})
        await eventually(lambda: admin.find(NAMESPACES, "kube-system"))
        path = tmp_path / "rome.kubeconfig"
        path.write_text(cluster.kubeconfig)
        # A busy machine may take longer than a completion is waited for: then nothing is offered.
        for line, offered in (
            ("liqod status m", ["milan", "modena"]),
            ("liqod doctor t", ["turin"]),
            ("liqod offload namespace s", ["shop"]),
        ):
            await eventually(partial(offers, line, path, offered))
        assert await completed("liqod offload namespace k", path) == ([], "")
        assert await completed("liqod run --c", path) == (["--config"], "")
        assert await completed("liqod top --so", path) == (["--socket"], "")
        await cluster.stop()
        began = time.monotonic()
        assert await completed("liqod status m", path) == ([], "")
        assert time.monotonic() - began < 30


async def test_nonsense_is_completed_by_nothing(tmp_path: Path):
    path = tmp_path / "nonsense"
    path.write_text("[[")
    assert await completed("liqod unpeer m", path) == ([], "")
