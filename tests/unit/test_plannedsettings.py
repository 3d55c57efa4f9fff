"""What comes of other settings of the daemon that are applied as a Secret."""

import base64
from typing import Any

import pytest

from liqod.apimachinery.kinds import SECRETS
from liqod.apimachinery.meta import ObjectMeta
from liqod.cli import plannedsettings
from liqod.config import parse
from liqod.identity import keys
from liqod.procedures.dryrun import PlannedObject
from liqod.resources import IncomingPeering
from liqod.resources.peering import IncomingPeeringSpec, IncomingPeeringStatus

PEM = keys.public_pem(keys.generate())
KEY = keys.print_of(PEM)
AUTO = f'[[policies]]\naction = "auto"\nkey = "{KEY}"\nmax_resources = {{cpu = "8"}}\n'


def secret(text: str | None, *, plain: bool = False) -> dict[str, Any] | None:
    """The Secret with the settings."""
    if text is None:
        return None
    coded = base64.b64encode(text.encode()).decode()
    field = {"stringData": {"liqod.toml": text}} if plain else {"data": {"liqod.toml": coded}}
    return {"metadata": {"name": "liqod", "namespace": "liqo"}, **field}


def planned(before: str | None, after: str, *, plain: bool = False) -> PlannedObject:
    known = (SECRETS, "liqo", "liqod", "", "changed" if before is not None else "created")
    return PlannedObject(*known, secret(before), secret(after, plain=plain))  # type: ignore[arg-type]


def request(cpu: str, phase: str = "Waiting", decision: str = "") -> IncomingPeering:
    spec = IncomingPeeringSpec(
        cluster_id="rome", public_key=PEM.decode(), resources={"cpu": cpu}, decision=decision
    )
    status = IncomingPeeringStatus(phase=phase)
    return IncomingPeering(metadata=ObjectMeta(name="rome"), spec=spec, status=status)


def told(found: PlannedObject, *waiting: IncomingPeering) -> list[str]:
    made = plannedsettings.consequences(found, "milan", waiting)
    return [f"{each.action} {each.cluster}: {each.message}" for each in made]


def test_only_the_secret_of_the_settings_has_them():
    assert plannedsettings.has_settings(planned("", AUTO), "liqo")
    assert not plannedsettings.has_settings(planned("", AUTO), "elsewhere")
    same = PlannedObject(SECRETS, "liqo", "liqod", "", "same")
    assert not plannedsettings.has_settings(same, "liqo")


@pytest.mark.parametrize("plain", [True, False])
def test_a_policy_is_tried_on_the_requests_that_wait(plain: bool):
    found = told(planned("", AUTO, plain=plain), request("4"), request("64"))
    assert found == [
        "begins rome: a request like the one that waits is granted: policy 1 grants it",
        "changes milan: [policies], once its daemon is started again",
    ]
    assert (
        told(planned("", AUTO), request("4", "Done"), request("4", "Waiting", "Deny")) == found[1:]
    )
    denied = told(planned(AUTO, '[[policies]]\naction = "deny"\n'), request("4"))
    assert denied[0].startswith("ends rome: a request like the one that waits is denied")


def test_peers_of_other_settings_are_named():
    asks = f'[[peers]]\nid = "rome"\naddresses = ["rome.example:1"]\nkey = "{KEY}"\n'
    [begun] = told(planned("", f'{asks}resources = {{cpu = "4"}}\n'))
    assert begun == "begins rome: the daemon asks it to lend by itself: cpu 4"
    [changed] = told(planned(asks, asks.replace(":1", ":2")))
    assert changed == "changes rome: its settings: addresses"
    assert told(planned(asks, f"# a word\n{asks}")) == []


def test_settings_that_make_no_sense_are_refused():
    [refused] = told(planned(None, "[provider]\npod_securty = 1\n"))
    assert refused.startswith("refused milan: liqod.toml: ")
    broken = PlannedObject(
        SECRETS, "liqo", "liqod", "", "changed", None, {"data": {"liqod.toml": "%"}}
    )
    assert told(broken) == ["refused milan: liqod.toml: it is no text"]


def of_file(text: str, before: str | None) -> tuple[str, list[str]]:
    """What becomes of a file on a host, and what comes of it."""
    known = parse(before, {}) if before is not None else None
    made = plannedsettings.of_file("h/liqod.toml", text.encode(), known, "milan", [request("4")])
    told = [f"{each.action} {each.cluster}: {each.message}" for each in made.consequences]
    return made.object.change, told


@pytest.mark.parametrize(
    ("text", "before", "change", "told"),
    [
        (AUTO, AUTO, "same", []),
        (f"# a word\n{AUTO}", AUTO, "same", []),
        (AUTO, "", "changed", ["begins rome: a request", "changes milan: [policies]"]),
        (AUTO, None, "created", ["begins rome: a request", "changes milan: [policies]"]),
        ("", None, "created", []),
        ("[provider]\npod_securty = 1\n", "", "refused", ["refused milan: h/liqod.toml: "]),
    ],
    ids=["same", "commented", "changed", "made", "empty", "wrong"],
)
def test_a_file_on_a_host_is_compared_with_the_present_one(
    text: str, before: str | None, change: str, told: list[str]
):
    found, came = of_file(text, before)
    assert found == change
    assert len(came) == len(told)
    assert all(each.startswith(begin) for each, begin in zip(came, told, strict=True))
