"""``diff``: show the differences of an object here and at a peer."""

import copy
import difflib
from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec
import typer
import yaml

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import PODS, Kind
from liqod.cli.clusters import AGENT
from liqod.cli.frame import Frame, command
from liqod.cli.options import LiqoNamespace
from liqod.cli.remoteaccess import (
    credentials_of,
    not_mapped,
    remote_namespaces,
    virtual_nodes,
)
from liqod.errors import ConfigError, Misuse, NotFound
from liqod.kube.client import Client
from liqod.kube.http import proxies
from liqod.kube.selection import Selection
from liqod.model.crossing.overrides import Override, compiled, in_order, is_acted_on
from liqod.plugins import loader
from liqod.plugins.contracts import SERVER_FIELDS
from liqod.resources import OVERRIDE_POLICIES, VirtualNode

Json = dict[str, Any]

LEFT_OUT: Final = SERVER_FIELDS | {"namespace"}
"""Fields of metadata that say nothing of the object itself."""
SET_THERE: Final = ("nodeName", "serviceAccount", "serviceAccountName")
"""Fields of a pod's spec that the peer's cluster decides."""


@command(timeout=30.0, outputs=("text", "json"), get=True)
async def diff(
    frame: Frame,
    wanted: Annotated[
        str, typer.Argument(metavar="OBJECT", help="KIND/NAME, such as pod/web or service/web.")
    ],
    peer: Annotated[str, typer.Option(help="Which peer; of a pod the one where it runs.")] = "",
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Its namespace here.")
    ] = "default",
    liqo_namespace: LiqoNamespace = labels.LIQO_NAMESPACE,
) -> None:
    """Show the differences of an object here and at a peer.

    Lines with - are here, those with + there. It names the OverridePolicies that change the object.
    Status, UIDs and all else that a cluster fills in by itself is left out.

    \b
    Examples:
      liqod diff pod/web -n shop
      liqod diff service/web -n shop --peer milan
    """
    kind, name = _object(wanted)
    async with frame.client() as client:
        here = await client.find(kind, name, namespace)
        if here is None:
            raise NotFound(f"there is no {kind.name} {name} in the namespace {namespace}")
        node = await _node(client, kind, here, peer)
        where = node.spec.cluster_id
        mapped = await remote_namespaces(client, namespace, node.namespace)
        if not mapped:
            raise not_mapped(namespace, where)
        found = await _policies(client, liqo_namespace, namespace)
        names = [each.full_name for each in found if each.concerns(kind, here, where)]
        there = await credentials_of(client, node)
        if proxies.dials_here(there.proxy):
            raise ConfigError(f"{where} dials this cluster, and only its daemon reaches it")
        async with Client(there, user_agent=AGENT) as remote:
            at_peer = await remote.find(kind, name, mapped[where])
    shown, other = _shown(here), _shown(at_peer)
    report = {"peer": where, "policies": names, "here": shown, "there": other}
    if frame.show({**report, "differs": shown != other}):
        return
    frame.print_text("\n".join(_text(report, kind, name)), lines=True)


def _object(wanted: str) -> tuple[Kind, str]:
    """The kind and the name that are meant.

    Raises:
        Misuse: it is no such words, or nothing of that kind is reflected.
    """
    word, slash, name = wanted.partition("/")
    if not slash or not name:
        raise Misuse(f"{wanted!r} is no object: say KIND/NAME, such as pod/web")
    kinds = {each.kind for each in loader.load().reflectors}
    for kind in kinds:
        if word.lower() in (kind.name.lower(), kind.plural):
            return kind, name
    known = ", ".join(sorted(kind.name.lower() for kind in kinds))
    raise Misuse(f"nothing of the kind {word!r} is reflected; these are: {known}")


async def _node(client: Client, kind: Kind, here: Json, peer: str) -> VirtualNode:
    """A virtual node of the peer that is meant.

    Raises:
        ConfigError: there is none, or several peers may be meant.
    """
    nodes = await virtual_nodes(client, peer)
    on = (here.get("spec") or {}).get("nodeName", "")
    if kind == PODS:
        nodes = [each for each in nodes if each.name == on]
        if not nodes:
            where = f"on the node {on}" if on else "on no node yet"
            raise ConfigError(f"the pod is {where}, not on {peer or 'a peer'}")
    peers = sorted({each.spec.cluster_id for each in nodes})
    if not peers:
        raise ConfigError(f"nothing is borrowed from {peer or 'any peer'}")
    if len(peers) > 1:
        raise ConfigError(f"say --peer, one of {', '.join(peers)}")
    return nodes[0]


async def _policies(client: Client, own: str, namespace: str) -> tuple[Override, ...]:
    every = [
        each
        for place in dict.fromkeys((own, namespace))
        for each in await client.list(OVERRIDE_POLICIES, Selection(place))
    ]
    return in_order((compiled(msgspec.json.encode(each)) for each in every), own)


def _shown(found: Json | None) -> Json | None:
    """An object without what its cluster and liqod fill in."""
    if found is None:
        return None
    made = {key: copy.deepcopy(each) for key, each in found.items() if key != "status"}
    meta = {key: each for key, each in made["metadata"].items() if key not in LEFT_OUT}
    for field in ("labels", "annotations"):
        kept = {key: each for key, each in (meta.get(field) or {}).items() if not is_acted_on(key)}
        meta.pop(field, None)
        if kept:
            meta[field] = kept
    made["metadata"] = meta
    if isinstance(made.get("spec"), dict):
        for field in SET_THERE:
            made["spec"].pop(field, None)
    return made


def _text(report: Json, kind: Kind, name: str) -> Iterable[str]:
    peer = report["peer"]
    if report["policies"]:
        yield f"changed by the OverridePolicies {', '.join(report['policies'])}"
    if report["there"] is None:
        yield f"{peer} has no {kind.name} {name}"
        return
    before, after = (
        yaml.safe_dump(report[each], sort_keys=True).splitlines() for each in ("here", "there")
    )
    lines = list(difflib.unified_diff(before, after, "here", peer, lineterm=""))
    yield from lines or (f"the one at {peer} is the same",)
