"""The repository of `examples/gitops`, applied in any order, twice, and half of it at first."""

import random
from pathlib import Path
from typing import Any

import pytest
import trio
import yaml

from liqod.apimachinery.kinds import NAMESPACES, NODES, Kind
from liqod.consumer.identities.clusterkeys import cluster_keys
from liqod.errors import NotFound
from liqod.identity import keys
from liqod.procedures import answering
from liqod.resources import (
    INCOMING_PEERINGS,
    NAMESPACE_MAPS,
    NAMESPACE_OFFLOADINGS,
    OUTGOING_PEERINGS,
    QUOTAS,
    RESOURCE_SLICES,
    TENANTS,
    VIRTUAL_NODES,
)
from tests.simulated import meeting as meetings
from tests.simulated.members import AT_MILAN, AT_ROME, Member

pytestmark = [pytest.mark.long, pytest.mark.handshake]

EXAMPLE = Path(__file__).parents[3] / "examples" / "gitops"
KINDS = {
    each.name: each
    for each in (NAMESPACES, NAMESPACE_OFFLOADINGS, OUTGOING_PEERINGS, INCOMING_PEERINGS)
}
Json = dict[str, Any]
LONGEST = 20.0
"""Seconds between two manifests, at most: a daemon has begun to act on the one before, or not."""


async def repository(rome: Member, milan: Member) -> list[tuple[Member, Json]]:
    """The manifests of the example, with these clusters' keys and milan's address."""
    made = [
        (member, each)
        for member in (rome, milan)
        for path in sorted((EXAMPLE / member.id).glob("*.yaml"))
        for each in yaml.safe_load_all(path.read_text())
        if each["kind"] in KINDS
    ]
    own = (await cluster_keys(rome.admin)).public
    for _, each in made:
        if each["kind"] == OUTGOING_PEERINGS.name:
            each["spec"]["addresses"] = [meetings.address_of(milan)]
            each["spec"]["key"] = await meetings.key_of(milan)
        elif each["kind"] == INCOMING_PEERINGS.name:
            each["spec"]["publicKey"] = own.decode()
            each["metadata"]["name"] = answering.name_of("rome", keys.print_of(own))
    return made


async def apply(member: Member, manifest: Json) -> None:
    """As a GitOps controller does: what has no namespace yet is tried again with the rest."""
    try:
        await member.admin.apply(KINDS[manifest["kind"]], manifest, manager="git")
    except NotFound:
        assert manifest["metadata"]["namespace"] not in ("", "liqo")


async def everything(rome: Member, milan: Member) -> Json:
    """The state to which it has come, without names and times that are drawn."""

    async def specs(member: Member, kind: Kind, namespace: str | None = None) -> list[Json]:
        found = await member.admin.list(kind)
        return [
            each["spec"]
            for each in found
            if namespace is None or each["metadata"]["namespace"] == namespace
        ]

    node = await rome.admin.get(NODES, "milan")
    [slice_] = await specs(rome, RESOURCE_SLICES, AT_ROME)
    [quota] = await specs(milan, QUOTAS, AT_MILAN)
    [virtual] = await specs(rome, VIRTUAL_NODES, AT_ROME)
    [mapped] = await specs(rome, NAMESPACE_MAPS, AT_ROME)
    [tenant] = await specs(milan, TENANTS, AT_MILAN)
    [incoming] = await milan.admin.list(INCOMING_PEERINGS)
    [outgoing] = await rome.admin.list(OUTGOING_PEERINGS)
    return {
        "allocatable": node["status"]["allocatable"],
        "slice": slice_["resources"],
        "quota": quota["resources"],
        "virtual": virtual["clusterID"],
        "mapped": mapped["desiredMapping"],
        "tenant": tenant["clusterID"],
        "incoming": (incoming["spec"], incoming["status"]["phase"]),
        "outgoing": (outgoing["spec"], outgoing["status"]["phase"]),
        "namespaces": [sorted(await names(each)) for each in (rome, milan)],
    }


async def names(member: Member) -> list[str]:
    """The names of its namespaces."""
    return [each["metadata"]["name"] for each in await member.admin.list(NAMESPACES)]


async def come_to(seed: int) -> Json:
    """The end of one order, drawn by a seed; the first is the order of the files."""
    drawn = random.Random(seed)
    async with meetings.meeting("rome", "milan") as [rome, milan]:
        every = await repository(rome, milan)
        first = drawn.sample(every, drawn.randrange(len(every))) if seed else []
        rest = drawn.sample(every, len(every)) if seed else every
        again = drawn.choices(every, k=len(every)) if seed else []
        for member, manifest in (*first, *rest, *again, *every):
            await apply(member, manifest)
            await trio.sleep(drawn.choice((0.0, drawn.uniform(0.0, LONGEST))))
        await meetings.peered(rome, "milan")
        await milan.until(NAMESPACES, "shop-rome", None, lambda found: found)
        await rome.until(
            NODES, "milan", None, lambda found: found["status"]["allocatable"].get("pods") == "50"
        )
        found = await everything(rome, milan)
        for drawn_anew in ("addresses", "key"):
            del found["outgoing"][0][drawn_anew]
        for drawn_anew in ("publicKey", "request"):
            del found["incoming"][0][drawn_anew]
        return found


async def test_any_order_twice_and_half_of_it_at_first_come_to_the_same():
    straight = await come_to(0)
    for seed in range(1, 4):
        assert await come_to(seed) == straight, f"seed {seed}"
