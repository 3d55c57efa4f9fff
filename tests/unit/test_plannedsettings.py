"""What comes of other settings that are applied as a Secret or a ConfigMap, or as a file."""

import base64
from typing import Any

import msgspec
import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS, NAMESPACES, SECRETS
from liqod.apimachinery.meta import ObjectMeta
from liqod.cli import plannedsettings
from liqod.cli.plannedsettings import Where
from liqod.config import parse
from liqod.identity import keys
from liqod.model import ids
from liqod.procedures.clusterobjects import ClusterObjects
from liqod.procedures.dryrun import PlannedObject
from liqod.resources import IncomingPeering, Quota, Resource, ResourceSlice
from liqod.resources.authentication import SliceSpec
from liqod.resources.offloading import QuotaSpec
from liqod.resources.peering import IncomingPeeringSpec, IncomingPeeringStatus

PEM = keys.public_pem(keys.generate())
KEY = keys.print_of(PEM)
TENANT = "liqo-tenant-rome"
AUTO = f'[[policies]]\naction = "auto"\nkey = "{KEY}"\nmax_resources = {{cpu = "8"}}\n'


def secret(text: str | None, *, plain: bool = False) -> dict[str, Any] | None:
    """The Secret with the settings."""
    if text is None:
        return None
    coded = base64.b64encode(text.encode()).decode()
    field = {"stringData": {"liqod.toml": text}} if plain else {"data": {"liqod.toml": coded}}
    return {"metadata": {"name": "liqod", "namespace": "liqo"}, **field}


def objects(*found: Resource) -> ClusterObjects:
    """A cluster with these objects, and a tenant namespace of rome's."""
    made = ClusterObjects()
    marks = {"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": "rome"}
    made.put(NAMESPACES, {"metadata": {"name": TENANT, "labels": marks}})
    for number, each in enumerate(found):
        body = msgspec.to_builtins(each)
        body["metadata"].setdefault("name", str(number))
        made.put(each.KIND, body)
    return made


def lent(name: str, cpu: str, granted: str, class_name: str = "") -> tuple[ResourceSlice, Quota]:
    """A slice of rome's, and the quota of what it was granted."""
    marks = {"liqo.io/replicated": "true", "liqo.io/originID": "rome"}
    spec = SliceSpec(consumer_cluster_id="rome", resources={"cpu": cpu}, class_name=class_name)
    user = ids.slice_user(name, "rome")
    return (
        ResourceSlice(metadata=ObjectMeta(name=name, namespace=TENANT, labels=marks), spec=spec),
        Quota(
            metadata=ObjectMeta(name=user, namespace=TENANT),
            spec=QuotaSpec(user=user, resources={"cpu": granted}),
        ),
    )


def planned(before: str | None, after: str, *, plain: bool = False) -> PlannedObject:
    known = (SECRETS, "liqo", "liqod", "", "changed" if before is not None else "created")
    return PlannedObject(*known, secret(before), secret(after, plain=plain))  # type: ignore[arg-type]


def request(cpu: str, phase: str = "Waiting", decision: str = "") -> IncomingPeering:
    spec = IncomingPeeringSpec(
        cluster_id="rome", public_key=PEM.decode(), resources={"cpu": cpu}, decision=decision
    )
    status = IncomingPeeringStatus(phase=phase)
    return IncomingPeering(metadata=ObjectMeta(name=f"rome-{cpu}"), spec=spec, status=status)


def told(found: PlannedObject, *there: Resource) -> list[str]:
    made = plannedsettings.consequences(found, Where("milan", "liqo", objects(*there)))
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
    assert changed == (
        "changes rome: its settings: addresses; a request that it was sent stays as it is"
    )
    trusted = f'{asks}believed_labels = ["zone"]\n'
    assert told(planned(asks, trusted)) == ["changes rome: its settings: believed_labels"]
    assert told(planned(asks, "")) == [
        "changes rome: the daemon asks it to lend no more; what is borrowed stays until"
        " `liqod unpeer rome`"
    ]
    assert told(planned(asks, f"# a word\n{asks}")) == []


def test_settings_that_make_no_sense_are_refused():
    [refused] = told(planned(None, "[provider]\npod_securty = 1\n"))
    assert refused.startswith("refused milan: liqod.toml: ")
    broken = PlannedObject(
        SECRETS, "liqo", "liqod", "", "changed", None, {"data": {"liqod.toml": "%"}}
    )
    assert told(broken) == ["refused milan: liqod.toml: it is no text"]
    empty = PlannedObject(SECRETS, "liqo", "liqod", "", "changed", secret(""), {"data": {}})
    [refused] = told(empty)
    assert refused.startswith("refused milan: liqod.toml: there is none")


def test_settings_of_the_other_program_are_in_a_configmap():
    known = (CONFIG_MAPS, "liqo-nodes", "liqod-node", "", "changed")
    texts = ("", "[health]\nport = 9\n", "[health]\nprot = 9\n")
    before, after, wrong = ({"kind": "ConfigMap", "data": {"liqod.toml": each}} for each in texts)
    found = PlannedObject(*known, before, after)  # type: ignore[arg-type]
    assert plannedsettings.has_settings(found, "liqo")
    assert not plannedsettings.has_settings(found, "elsewhere")
    assert told(found) == ["changes milan: liqod node: [health] port, once it is started again"]
    [refused] = told(PlannedObject(*known, before, wrong))  # type: ignore[arg-type]
    assert refused.startswith("refused milan: liqod.toml: ")


def test_bounds_are_tried_on_what_consumers_have():
    one, other = lent("one", "8", "8"), lent("two", "2", "2")
    bound = '[guests]\nmax_resources = {cpu = "%s"}\n'
    rest = "changes milan: [guests] max_resources, once its daemon is started again"
    assert told(planned("", bound % 10), *one, *other) == [rest]
    [ends, last] = told(planned("", bound % 8), *one, *other)
    assert ends.startswith("ends rome: all that it has by its slice two: one consumer may have")
    assert last == rest
    assert told(planned(bound % 8, bound % 12), *one, *lent("two", "2", "0"))[0] == (
        "changes rome: its slice two has cpu 2 instead of cpu 0"
    )
    apart = lent("three", "6", "6", "gold")
    assert told(planned("", bound % 16), *one, *other, *apart) == [rest]
    few = told(planned("", "[guests]\nmax_slices = 1\n"), *one, *other)
    assert few[0] == "ends rome: all that it has by its slice two: one consumer may have 1 slices"
    off = told(planned("", "[provider]\naccept_default_class = false\n"), *one)
    assert off[0].startswith("ends rome: all that it has by its slice one: ")
    assert told(planned("", '[provider]\ndefault_resources = {cpu = "1"}\n'), *one)[0] == (
        "changes rome: its slice one has ephemeral-storage 0, memory 0, pods 0 instead of"
        " ephemeral-storage 20Gi, memory 8Gi, pods 110"
    )


def test_tables_are_named_with_what_changes_in_them():
    text = '[network]\npools = ["10.99.0.0/16"]\nreserved = ["10.98.0.0/16"]\n'
    assert told(planned("", text)) == [
        "changes milan: [network] pools and reserved, once its daemon is started again"
    ]


def of_file(text: str, before: str | None) -> tuple[str, list[str]]:
    """What becomes of a file on a host, and what comes of it."""
    known = parse(before, {}) if before is not None else None
    made = plannedsettings.of_file(
        "h/liqod.toml", text.encode(), known, Where("milan", "liqo", objects(request("4")))
    )
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
