"""The consequences of other settings of the daemon, where a manifest or a file has them. Pure.

They are in the Secret of an installation in the cluster, and in a file on a host. Requests that
wait are judged by the policies before and after; a cluster that asks like one of them is judged so.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from liqod.apimachinery.kinds import SECRETS, Kind
from liqod.config import Config, parse
from liqod.errors import ConfigError
from liqod.handshake.requests.policies import PolicyDecision, PolicySubject, judge
from liqod.install.workload import CONFIG_FILE, NAME
from liqod.procedures import answering
from liqod.procedures.consequences import Action, Consequence
from liqod.procedures.dryrun import PlannedObject
from liqod.procedures.planning import PlannedChange
from liqod.resources import IncomingPeering

Json = dict[str, Any]

JUDGED: Final[dict[str, tuple[Action, str]]] = {
    "auto": ("begins", "a request like the one that waits is granted"),
    "ask": ("waits", "a request like the one that waits is left to a person"),
    "deny": ("ends", "a request like the one that waits is denied"),
}
BY_PEER: Final = ("peers", "peer_defaults")
"""Tables that concern single peers."""


FILE: Final = Kind("", "", "Settings", "")
"""Stands for the kind of a file, which is no object."""


def of_file(
    source: str, text: bytes, before: Config | None, here: str, waiting: Iterable[IncomingPeering]
) -> PlannedChange:
    """The change that a file with settings would be.

    Args:
        source: its path.
        text: its contents.
        before: the settings as they are; None where they are not known, for the defaults.
        here: this cluster's id.
        waiting: requests of others; those that were decided count for nothing.
    """
    known = (FILE, "", CONFIG_FILE, source)
    try:
        after = parse(text.decode(), {})
    except (ConfigError, UnicodeDecodeError) as error:
        told = Consequence("refused", here, f"{source}: {error}")
        return PlannedChange(PlannedObject(*known, "refused"), (told,))
    if before is None:
        found = _compared(Config(), after, here, waiting)
        return PlannedChange(PlannedObject(*known, "created"), tuple(found))
    found = _compared(before, after, here, waiting)
    return PlannedChange(PlannedObject(*known, "changed" if found else "same"), tuple(found))


def has_settings(planned: PlannedObject, own: str) -> bool:
    """True if an object is the Secret of the daemon's settings, and is to be another one."""
    place = (planned.kind, planned.namespace, planned.name)
    return place == (SECRETS, own, NAME) and planned.change in ("created", "changed")


def consequences(
    planned: PlannedObject, here: str, waiting: Iterable[IncomingPeering]
) -> list[Consequence]:
    """The consequences of the settings that a Secret has.

    Args:
        planned: the Secret.
        here: this cluster's id.
        waiting: requests of others; those that were decided count for nothing.
    """
    try:
        after = parse(_text(planned.after), {})
    except ConfigError as error:
        return [Consequence("refused", here, f"{CONFIG_FILE}: {error}")]
    try:
        before = parse(_text(planned.before), {})
    except ConfigError:
        before = Config()
    return _compared(before, after, here, waiting)


def _compared(
    before: Config, after: Config, here: str, waiting: Iterable[IncomingPeering]
) -> list[Consequence]:
    """The consequences of settings after others."""
    if before == after:
        return []
    return [*_peers(before, after), *_requests(before, after, waiting), *_rest(before, after, here)]


def _text(secret: Json | None) -> str:
    """The settings as text. Raises ConfigError: they are none."""
    found = secret or {}
    if (plain := (found.get("stringData") or {}).get(CONFIG_FILE)) is not None:
        return str(plain)
    coded = (found.get("data") or {}).get(CONFIG_FILE, "")
    try:
        return base64.b64decode(coded, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ConfigError("it is no text") from error


def _peers(before: Config, after: Config) -> Iterator[Consequence]:
    known = [{each.id for each in one.peers} for one in (before, after)]
    for peer in sorted(known[0] | known[1]):
        was, wanted = before.peer(peer), after.peer(peer)
        if was == wanted:
            continue
        if wanted.addresses and not was.addresses:
            asked = ", ".join(f"{name} {each}" for name, each in sorted(wanted.resources.items()))
            told = f"the daemon asks it to lend by itself: {asked or 'the default'}"
            yield Consequence("begins", peer, told)
        else:
            changed = ", ".join(_differing(was, wanted))
            yield Consequence("changes", peer, f"its settings: {changed}")


def _requests(
    before: Config, after: Config, waiting: Iterable[IncomingPeering]
) -> Iterator[Consequence]:
    for each in waiting:
        if each.status.phase != "Waiting" or each.spec.decision:
            continue
        was, verdict = _judged(before, each), _judged(after, each)
        if was.action != verdict.action:
            action, told = JUDGED[verdict.action]
            yield Consequence(action, each.spec.cluster_id, f"{told}: {verdict.reason}")


def _judged(config: Config, request: IncomingPeering) -> PolicyDecision:
    spec = request.spec
    asker = PolicySubject(spec.cluster_id, answering.key_of(request), labels=spec.labels)
    return judge(config.policies, asker, spec.resources, config.provider.default_resources)


def _rest(before: Config, after: Config, here: str) -> Iterator[Consequence]:
    tables = [each for each in _differing(before, after) if each not in BY_PEER]
    if tables:
        named = ", ".join(f"[{each}]" for each in tables)
        yield Consequence("changes", here, f"{named}, once its daemon is started again")
    if before.peer_defaults != after.peer_defaults:
        changed = ", ".join(_differing(before.peer_defaults, after.peer_defaults))
        told = f"of all peers, once its daemon is started again: {changed}"
        yield Consequence("changes", here, told)


def _differing(before: msgspec.Struct, after: msgspec.Struct) -> list[str]:
    """The names of the fields in which two structs differ."""
    names = (each.name for each in msgspec.structs.fields(after))
    return [name for name in names if getattr(before, name) != getattr(after, name)]
