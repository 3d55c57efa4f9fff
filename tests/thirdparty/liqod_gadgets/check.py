"""Checks that a peer knows the kind Gadget."""

import msgspec

from liqod.plugins.diagnosis import Asker, Check, Finding, PeerFacts, failing, ok, unknown

PATH = "/apis/example.com/v1"


class Resource(msgspec.Struct):
    """One of the resources that an API server serves."""

    name: str


class Resources(msgspec.Struct):
    """The peer's answer: the resources of the group."""

    resources: list[Resource]


async def probe(asker: Asker) -> bool:
    """True if the peer serves Gadgets; fails where it has no such group at all."""
    served = msgspec.json.decode(await asker.read(PATH), type=Resources)
    return any(each.name == "gadgets" for each in served.resources)


def look(facts: PeerFacts) -> Finding | None:
    """Of a peer that lends: one that only borrows needs none."""
    if not facts.lends:
        return None
    if facts.probed is None:
        return unknown("not asked yet")
    if facts.probed:
        return ok("it serves them")
    return failing("it serves no gadgets", "install the definition of Gadget there")


CHECK = Check(
    name="gadgets",
    title="Gadgets at the peer",
    scope="peer",
    order=95,
    needs=("api",),
    look=look,
    probe=probe,
    every=30.0,
)
