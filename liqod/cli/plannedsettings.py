"""The consequences of other settings of the daemon, where a manifest or a file has them. Pure.

They are in the Secret of an installation in the cluster, with those of ``liqod node`` in a
ConfigMap beside it, and in a file on a host. Requests that wait are judged by the policies before
and after; a cluster that asks like one of them is judged so. Slices of consumers likewise.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from liqod.apimachinery.kinds import CONFIG_MAPS, SECRETS, Kind
from liqod.config import Config, parse
from liqod.configsections import NetworkSettings
from liqod.errors import ConfigError
from liqod.handshake.requests.policies import PolicyDecision, PolicySubject, judge
from liqod.install.gateway import NODES
from liqod.install.workload import CONFIG_FILE, NAME
from liqod.model import ids
from liqod.procedures import answering
from liqod.procedures.clusterobjects import ClusterObjects
from liqod.procedures.consequences import Action, Consequence
from liqod.procedures.dryrun import PlannedObject
from liqod.procedures.lendingconsequences import lending_consequences
from liqod.procedures.planning import PlannedChange
from liqod.resources import INCOMING_PEERINGS, IncomingPeering

Json = dict[str, Any]

JUDGED: Final[dict[str, tuple[Action, str]]] = {
    "auto": ("begins", "a request like the one that waits is granted"),
    "ask": ("waits", "a request like the one that waits is left to a person"),
    "deny": ("ends", "a request like the one that waits is denied"),
}
BY_PEER: Final = ("peers", "peer_defaults")
"""Tables that concern single peers."""
ASKED: Final = frozenset(("addresses", "key", "resources", "virtual_nodes"))
"""Settings of a peer that are sent to it once."""

OF_NODE: Final = ("enabled", "advertise", "backends")
"""Settings of networks by which ``liqod node`` acts; the daemon acts by the others."""
FILE: Final = Kind("", "", "Settings", "")
"""Stands for the kind of a file, which is no object."""


class Where(msgspec.Struct, frozen=True):
    """The cluster of which settings are planned.

    Attributes:
        here: its id.
        own: liqod's namespace in it.
        objects: all of its objects as they would be.
    """

    here: str
    own: str
    objects: ClusterObjects


def of_file(source: str, text: bytes, before: Config | None, where: Where) -> PlannedChange:
    """The change that a file with settings would be, which the daemon and ``liqod node`` read.

    Args:
        source: its path.
        text: its contents.
        before: the settings as they are; None where they are not known, for the defaults.
        where: the cluster.
    """
    known = (FILE, "", CONFIG_FILE, source)
    try:
        after = parse(text.decode(), {})
    except (ConfigError, UnicodeDecodeError) as error:
        told = Consequence("refused", where.here, f"{source}: {error}")
        return PlannedChange(PlannedObject(*known, "refused"), (told,))
    if before is None:
        found = _compared(Config(), after, where)
        return PlannedChange(PlannedObject(*known, "created"), tuple(found))
    found = _compared(before, after, where)
    return PlannedChange(PlannedObject(*known, "changed" if found else "same"), tuple(found))


def has_settings(planned: PlannedObject, own: str) -> bool:
    """True if an object has the settings of a program of liqod, and is to be another one.

    They are in the Secret of the daemon, and in the ConfigMap of ``liqod node``.
    """
    place = (planned.kind, planned.namespace, planned.name)
    known = ((SECRETS, own, NAME), (CONFIG_MAPS, ids.nodes_namespace(own), NODES))
    return place in known and planned.change in ("created", "changed")


def consequences(planned: PlannedObject, where: Where) -> list[Consequence]:
    """The consequences of the settings that the Secret or the ConfigMap has."""
    try:
        after = parse(_text(planned.after), {})
    except ConfigError as error:
        return [Consequence("refused", where.here, f"{CONFIG_FILE}: {error}")]
    try:
        before = parse(_text(planned.before), {}) if planned.before is not None else Config()
    except ConfigError:
        before = Config()
    if planned.kind == CONFIG_MAPS:
        tables = _tables(before, after)
        told = f"liqod node: {', '.join(tables)}, once it is started again"
        rest = [Consequence("changes", where.here, told)] if tables else []
        return [*_network(before.network, _of_node(before.network, after.network), where), *rest]
    if planned.kind == SECRETS:
        network = _of_node(after.network, before.network)
        enabled = msgspec.structs.replace(network, enabled=after.network.enabled)
        return _compared(before, after, where, enabled)
    return _compared(before, after, where)


def _of_node(others: NetworkSettings, node: NetworkSettings) -> NetworkSettings:
    """Settings of networks of which those of ``liqod node`` are as its own say."""
    return msgspec.structs.replace(others, **{each: getattr(node, each) for each in OF_NODE})


def _compared(
    before: Config, after: Config, where: Where, network: NetworkSettings | None = None
) -> list[Consequence]:
    """The consequences of settings after others.

    Args:
        before, after: the settings.
        where: the cluster.
        network: those of networks that count, where another program has some of them.
    """
    if before == after:
        return []
    waiting = where.objects.store(INCOMING_PEERINGS).values(IncomingPeering)
    return [
        *_peers(before, after),
        *_requests(before, after, waiting),
        *lending_consequences(where.objects, before, after),
        *_network(before.network, network or after.network, where),
        *_rest(before, after, where.here),
    ]


def _network(
    before: NetworkSettings, after: NetworkSettings, where: Where
) -> Iterator[Consequence]:
    if before == after:
        return
    # They bring the tunnels' backends, which other plans do without.
    from liqod.network.loadedbackends import load_backends
    from liqod.procedures import networkconsequences

    known = load_backends(()).network
    both = (where.objects, before, after, where.own)
    yield from networkconsequences.network_consequences(*both, known)
    yield from networkconsequences.external_consequences(*both, where.here)
    yield from networkconsequences.node_consequences(*both[:3], where.here)


def _text(found: Json | None) -> str:
    """The settings as text. Raises ConfigError: they are none."""
    known = found or {}
    for field in ("stringData", "data"):
        value = (known.get(field) or {}).get(CONFIG_FILE)
        if value is not None and (field == "stringData" or known.get("kind") == CONFIG_MAPS.name):
            return str(value)
        if value is not None:
            return _decoded(value)
    raise ConfigError("there is none, without which the program does not start")


def _decoded(coded: Any) -> str:
    try:
        return base64.b64decode(coded, validate=True).decode()
    except (binascii.Error, TypeError, ValueError) as error:
        raise ConfigError("it is no text") from error


def _peers(before: Config, after: Config) -> Iterator[Consequence]:
    known = [{each.id for each in one.peers} for one in (before, after)]
    for peer in sorted(known[0] | known[1]):
        was, wanted = before.peer(peer), after.peer(peer)
        asked, asks = (bool(each.addresses or each.kubeconfig) for each in (was, wanted))
        changed = _differing(was, wanted)
        if asks and not asked:
            amounts = ", ".join(f"{name} {each}" for name, each in sorted(wanted.resources.items()))
            told = f"the daemon asks it to lend by itself: {amounts or 'the default'}"
            yield Consequence("begins", peer, told)
            changed = [each for each in changed if each not in (*ASKED, "kubeconfig")]
        elif asked and not asks:
            told = "the daemon asks it to lend no more; what is borrowed stays until"
            yield Consequence("changes", peer, f"{told} `liqod unpeer {peer}`")
            changed = [each for each in changed if each not in (*ASKED, "kubeconfig")]
        elif sent := [each for each in changed if each in ASKED]:
            told = f"its settings: {', '.join(sent)}; a request that it was sent stays as it is"
            yield Consequence("changes", peer, told)
            changed = [each for each in changed if each not in sent]
        if changed:
            yield Consequence("changes", peer, f"its settings: {', '.join(changed)}")


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
    if tables := _tables(before, after):
        told = f"{', '.join(tables)}, once its daemon is started again"
        yield Consequence("changes", here, told)
    if before.peer_defaults != after.peer_defaults:
        changed = ", ".join(_differing(before.peer_defaults, after.peer_defaults))
        told = f"of all peers, once its daemon is started again: {changed}"
        yield Consequence("changes", here, told)


def _tables(before: Config, after: Config) -> list[str]:
    """The tables that differ, but for those of single peers, with the keys in which they do."""
    found = []
    for name in _differing(before, after):
        was, wanted = getattr(before, name), getattr(after, name)
        if name not in BY_PEER:
            keys = _differing(was, wanted) if isinstance(was, msgspec.Struct) else []
            found.append(" ".join((f"[{name}]", " and ".join(keys))).strip())
    return found


def _differing(before: msgspec.Struct, after: msgspec.Struct) -> list[str]:
    """The names of the fields in which two structs differ."""
    names = (each.name for each in msgspec.structs.fields(after))
    return [name for name in names if getattr(before, name) != getattr(after, name)]
