"""Checks that a peer's Kubernetes is new enough."""

import re

import msgspec

from liqod.plugins.diagnosis import Asker, Check, Finding, PeerFacts, failing, ok, unknown


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``[plugins.settings.kubernetes-version]``."""

    oldest: str = "1.30"


class Version(msgspec.Struct):
    """The part of an API server's answer that is looked at."""

    major: str
    minor: str


async def probe(asker: Asker) -> str:
    """The peer's version; what cannot be read is raised, and shown by the doctor."""
    said = msgspec.json.decode(await asker.read("/version"), type=Version)
    return f"{said.major}.{said.minor}"


def look(facts: PeerFacts) -> Finding | None:
    """The finding, from the facts that the daemon has; without I/O."""
    if not facts.lends:
        return None  # the layer does not apply to a peer that only borrows
    if facts.probed is None:
        return unknown("not asked yet")
    if _numbers(facts.probed) < _numbers(facts.settings.oldest):
        return failing(f"it is {facts.probed}", f"upgrade it to {facts.settings.oldest} or newer")
    return ok(f"it is {facts.probed}")


def _numbers(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", version)]


CHECK = Check(
    name="kubernetes-version",
    title="the version of the peer's Kubernetes",
    scope="peer",
    order=95,
    needs=("api",),
    look=look,
    probe=probe,
    config_type=Settings,
)
