"""Keeps this machine a candidate for gateway from the daemon's start on, as leader and as standby.

The daemon has what needs the API server: the machine's Node, the candidates' Secret, the cordons
and the Lease. The machine decides by these, and requests each write (:mod:`liqod.network.machine`).
"""

import base64
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NODES, SECRETS
from liqod.cluster.context import ClusterContext
from liqod.errors import AlreadyExists, ConfigError, LiqodError, NetworkError
from liqod.kube.cache.informers import Informers
from liqod.kube.cache.store import StoreChange
from liqod.kube.selection import Selection
from liqod.model.objects.partial import Secret
from liqod.network.failover.candidatemessages import SAID, key_of
from liqod.network.failover.lease import GatewayLease
from liqod.network.failover.role import UNKNOWN, Role
from liqod.network.orders.candidacy import (
    PATIENCE,
    Candidacy,
    CandidacyOrder,
    CandidacyReport,
    LeaseAnswer,
    LeaseFound,
    LeaseRecord,
    LetGo,
    LetGoDone,
    LocalCandidate,
    ReadLease,
    RoleReport,
    WriteLease,
)
from liqod.network.overlay import members
from liqod.network.ownaddresses import own_addresses
from liqod.network.requests import NewestRequest
from liqod.runtime.gather import either
from liqod.runtime.log import Seldom
from liqod.runtime.observable import Observable
from liqod.runtime.supervise import Failure, Supervision

SECRET: Final = labels.GATEWAY_SECRET
_KEY: Final = "key"
_LONG: Final = 32
CORDONED: Final = Selection(fields="spec.unschedulable=true")
"""Of Nodes: mostly there are none, and what kubelets report of theirs comes from these only."""

log = logging.getLogger(__name__)


def role_of(context: ClusterContext) -> Role:
    """The role before any election: the gateway where it is alone, else not known yet."""
    settings = context.config.network
    several = bool(settings.enabled and settings.candidates)
    return Role(UNKNOWN, others=True) if several else Role()


class Membership:
    """Keeps this cluster's part of the candidacy: the machine's Node, the cordons, and the Lease.

    Args:
        find: finds this machine as a candidate.
        role: notified of the machine's.
        leads: whether this daemon leads.
        send: sends an order to the machine.
    """

    def __init__(
        self,
        context: ClusterContext,
        find: Callable[[], Awaitable[LocalCandidate]],
        role: Role,
        leads: Observable[bool],
        send: Callable[[CandidacyOrder], None],
    ) -> None:
        self._context, self._find, self._role = context, find, role
        self._leads, self._send = leads, send
        self._lease = GatewayLease(context.client, context.namespace, self._on_lease)
        self._found: LeaseFound | None = None
        self._me: LocalCandidate | None = None
        self._cordoned: frozenset[str] = frozenset()
        self._request = NewestRequest(self._answer, send)
        self._released = trio.Event()
        self._seldom = Seldom()

    def receive(self, report: CandidacyReport) -> None:
        """Take a report of the machine; its requests are carried out."""
        match report:
            case LetGoDone():
                self._released.set()
            case RoleReport():
                self._role.gateway, self._role.standbys = report.gateway, report.standbys
                self._role.set(report.state)
            case ReadLease() | WriteLease():
                self._request.receive(report)

    async def run(self) -> NoReturn:
        """Keep the machine a candidate until cancelled, as often as it takes."""
        try:
            await Supervision(self._run, self._report).forever()
        finally:
            if self._me is not None:
                with trio.move_on_after(PATIENCE, shield=True):
                    await self._leave()

    def _report(self, failure: Failure | None, error: BaseException | None) -> None:
        if failure is not None and self._seldom.allows(failure.reason):
            log.warning("this node cannot be the gateway: %s", failure.reason)

    async def _run(self) -> None:
        self._me = await self._find()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow_cordons, self._context.informers, self._on_cordons)
            nursery.start_soon(self._lease.follow)
            nursery.start_soon(self._request.run)
            while True:
                await self._leads.wait_changed()
                self.tell()

    async def _leave(self) -> None:
        """End: a gateway whose Node is cordoned, as one that is drained, lets the Lease go."""
        self._send(LetGo())
        await either(self._request.run, self._released.wait)

    def _on_cordons(self, names: frozenset[str]) -> None:
        self._cordoned = names
        self.tell()

    def _on_lease(self, record: LeaseRecord | None) -> None:
        self._found = LeaseFound(record)
        self._send(self._found)

    def tell(self) -> None:
        """Send the state of this cluster, as far as it is known, and the Lease."""
        if self._me is not None:
            self._send(Candidacy(self._me, self._leads.now, self._cordoned))
        if self._found is not None:
            self._send(self._found)

    async def _answer(self, request: ReadLease | WriteLease) -> LeaseAnswer:
        try:
            with trio.fail_after(PATIENCE):
                version = await self._carry_out(request)
        except (LiqodError, trio.TooSlowError) as error:
            log.debug("the gateway's lease: %s", error)
            return LeaseAnswer(request.number, error=str(error) or "the API server is too slow")
        return LeaseAnswer(request.number, version or "")

    async def _carry_out(self, request: ReadLease | WriteLease) -> str | None:
        version = None
        if isinstance(request, WriteLease):
            record = request.record
            if self._me is None or record.claim.holder not in ("", self._me.name):
                raise NetworkError(f"{record.claim.holder} is not the candidate of this daemon")
            if record.claim.version:
                version = await self._lease.write(record, taken=request.taken)
            else:
                version = await self._lease.create(record)
        if version is None:
            await self._lease.read()
        return version


async def local_candidate(context: ClusterContext) -> LocalCandidate:
    """This machine as a candidate, by its Node and the configuration.

    Raises:
        ConfigError: it is none of the cluster's nodes, or its Node has no usable address.
        LiqodError: as the client raises.
    """
    settings = context.config.network
    listed = await context.client.list(NODES)
    found = [members.member(msgspec.json.encode(each)) for each in listed]
    nodes = [each for each in found if each is not None]
    own = (context.machine_address, *own_addresses(context.machine_address))
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
    marks = {each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in listed}
    return LocalCandidate(
        name=name,
        address=address,
        key=key_of(await secret_of(context), context.cluster_id),
        port=settings.candidate_port,
        reached=next((each for each in settings.advertise if len(each) <= SAID), address),
        eligible=members.is_candidate(settings.candidates, marks[name]),
    )


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
