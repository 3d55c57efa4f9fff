"""Keeps a daemon a candidate for gateway from its start on, as leader and as standby."""

import base64
import logging
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cluster.context import ClusterContext
from liqod.errors import AlreadyExists, ConfigError, NetworkError
from liqod.kube.cache.informers import Informers
from liqod.kube.cache.store import StoreChange
from liqod.kube.selection import Selection
from liqod.model.objects.partial import Secret
from liqod.network.dataplane.kernel import namespaces
from liqod.network.failover.candidate import Candidate
from liqod.network.failover.candidatemessages import SAID, key_of
from liqod.network.failover.fence import Fence
from liqod.network.failover.localcandidate import LocalCandidate
from liqod.network.failover.role import GatewayState, Role
from liqod.network.hostcapabilities import own_addresses
from liqod.network.overlay import members
from liqod.runtime.log import Seldom
from liqod.runtime.supervise import Failure, Supervision

SECRET: Final = labels.GATEWAY_SECRET
_KEY: Final = "key"
_LONG: Final = 32
EVERYBODY: Final = "all"
CORDONED: Final = Selection(fields="spec.unschedulable=true")
"""Of Nodes: mostly there are none, and what kubelets report of theirs comes from these only."""
UNKNOWN: Final = GatewayState(active=None)

log = logging.getLogger(__name__)


def role_of(context: ClusterContext) -> Role:
    """The role before any election: the gateway where it is alone, else not known yet."""
    settings = context.config.network
    several = bool(settings.enabled and settings.candidates)
    return Role(UNKNOWN, others=True) if several else Role()


async def run_candidate(
    context: ClusterContext, role: Role, leads: Callable[[], bool], *, node: str | None = None
) -> NoReturn:
    """Be a candidate until cancelled, as often as it takes; of one that is alone, nothing.

    Args:
        role: notified whether this machine is the gateway.
        leads: whether this daemon leads.
        node: name of the node's network namespace; None for the one that this process is in.
    """

    seldom = Seldom()

    def report(failure: Failure | None, error: BaseException | None) -> None:
        if failure is not None and seldom.allows(failure.reason):
            log.warning("this node cannot be the gateway: %s", failure.reason)

    async def run() -> None:
        await _run_candidate(context, role, leads, node)

    if role.others:
        await Supervision(run, report).forever()
    await trio.sleep_forever()


async def _run_candidate(
    context: ClusterContext, role: Role, leads: Callable[[], bool], node: str | None
) -> None:
    settings = context.config.network
    found = [members.member(msgspec.json.encode(each)) for each in await context.client.list(NODES)]
    nodes = [each for each in found if each is not None]
    own = (context.node_address, *own_addresses(context.node_address))
    name = members.local(nodes, settings.node, own)
    if not name:
        raise ConfigError(
            "this daemon runs on none of the cluster's nodes: say [network] node, or leave "
            "[network] candidates out"
        )
    try:
        address = members.address(name, nodes)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    me = LocalCandidate(
        name=name,
        address=address,
        key=key_of(await secret_of(context), context.cluster_id),
        reached=next((each for each in settings.advertise if len(each) <= SAID), address),
        port=settings.candidate_port,
    )
    candidate = Candidate(
        context.client,
        context.namespace,
        me,
        Fence(context.cluster_id, node),
        role,
        begins=leads,
        eligible=await _is_named(context, name),
        inside=partial(namespaces.inside, node),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow_cordons, context.informers, candidate.on_cordons)
        await candidate.run()


async def follow_cordons(
    informers: Informers, on_cordons: Callable[[frozenset[str]], None]
) -> NoReturn:
    """Report the names of the Nodes that are cordoned, and each change, until cancelled."""
    async with informers.share(NODES, CORDONED) as cordoned:

        def look(_: StoreChange | None = None) -> None:
            on_cordons(frozenset(name for _, name in cordoned.store))

        end = cordoned.subscribe(look)
        try:
            look()
            await trio.sleep_forever()
        finally:
            end()


async def _is_named(context: ClusterContext, node: str) -> bool:
    """True if the configuration has this node among the candidates."""
    selector = context.config.network.candidates
    if selector == EVERYBODY:
        return True
    key, _, value = selector.partition("=")
    found = await context.client.get(NODES, node, decode=Partial)
    has = found.metadata.labels.get(key)
    return has is not None and (not value or has == value)


async def secret_of(context: ClusterContext) -> bytes:
    """The secret of which the candidates' key is made; made where there is none.

    Raises:
        NetworkError: there is one, and it is no such secret.
    """
    client, own = context.client, context.namespace
    for _ in range(2):
        found = await client.find(SECRETS, SECRET, own, decode=Secret)
        if found is not None:
            kept = found.value(_KEY)
            if len(kept) < _LONG:
                raise NetworkError(f"the Secret {own}/{SECRET} has no {_KEY!r} of {_LONG} bytes")
            return kept
        try:
            await client.create(SECRETS, _secret(), own)
        except AlreadyExists:
            continue
    raise NetworkError(f"the Secret {own}/{SECRET} comes and goes")


def _secret() -> dict[str, Any]:
    made = base64.b64encode(secrets.token_bytes(_LONG)).decode()
    marks = {labels.MANAGED_BY_LIQOD: labels.TRUE}
    return {"metadata": {"name": SECRET, "labels": marks}, "type": "Opaque", "data": {_KEY: made}}
