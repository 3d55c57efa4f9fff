"""The repository of `examples/gitops`, and the states that its page names."""

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from liqod.cli import manifests
from liqod.identity import keys
from liqod.procedures import answering
from liqod.resources import IncomingPeering, OutgoingPeering
from liqod.resources.offloading import (
    PHASE_ALL_FAILED,
    PHASE_IN_PROGRESS,
    PHASE_NO_CLUSTER,
    PHASE_READY,
    PHASE_SOME_FAILED,
    PHASE_TERMINATING,
)
from liqod.resources.peering import PHASES

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "gitops"
PAGE = (ROOT / "docs" / "how-to" / "gitops.md").read_text()
STATES = (ROOT / "docs" / "how-to" / "argo-flux.md").read_text()
OFFLOADING = (
    *(PHASE_READY, PHASE_NO_CLUSTER, PHASE_IN_PROGRESS),
    *(PHASE_SOME_FAILED, PHASE_ALL_FAILED, PHASE_TERMINATING),
)


def one(folder: str, kind: str) -> dict[str, Any]:
    """The object of a kind in the folder of a cluster."""
    [found] = [each for each in manifests.read([str(EXAMPLE / folder)]) if each.kind == kind]
    return found.body


@pytest.mark.parametrize("folder", ["rome", "milan"])
def test_a_kustomization_names_every_file(folder: str):
    listed = yaml.safe_load((EXAMPLE / folder / "kustomization.yaml").read_text())["resources"]
    files = {each.name for each in (EXAMPLE / folder).iterdir()} - {"kustomization.yaml"}
    assert set(listed) == files


def test_the_one_that_asks_is_found_by_its_name():
    let_in = msgspec.json.decode(json.dumps(one("milan", "IncomingPeering")), type=IncomingPeering)
    named = answering.name_of(
        let_in.spec.cluster_id, keys.print_of(let_in.spec.public_key.encode())
    )
    assert let_in.name == named
    assert f"`{named}`" in PAGE
    asked = msgspec.json.decode(json.dumps(one("rome", "OutgoingPeering")), type=OutgoingPeering)
    assert re.fullmatch("[0-9a-f]{64}", asked.spec.key)
    assert asked.spec.resources == let_in.spec.granted


def test_no_secret_is_in_it():
    kinds = {each.kind for each in manifests.read([str(EXAMPLE)])}
    assert "Secret" not in kinds
    assert not any("PRIVATE" in path.read_text() for path in EXAMPLE.rglob("*.yaml"))


@pytest.mark.parametrize(
    ("variable", "known"), [("phase", PHASES), ("offloadingPhase", OFFLOADING)]
)
def test_states_that_the_page_names_are_there(variable: str, known: tuple[str, ...]):
    lists = re.findall(rf"status\.{variable} in \[([^\]]*)\]", STATES)
    found = set(re.findall(rf'status\.{variable} == "(\w+)"', STATES))
    found |= {each for text in lists for each in re.findall(r'"(\w+)"', text)}
    assert found
    assert found <= set(known)


def test_states_of_the_scripts_are_there():
    found = set(re.findall(r'phase == "(\w*)"', STATES))
    assert found <= {*PHASES, *OFFLOADING}
