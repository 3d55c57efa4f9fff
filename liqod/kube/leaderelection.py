"""Leader election by a ``coordination.k8s.io`` Lease: one of several replicas writes.

The rules are client-go's: the holder of the Lease renews it; the others take it when its holder has
released it or they have not *seen* it renewed for its duration, measured on their own clock. The
standbys watch the Lease, so a clean stop is noticed at once. The leader counts from before its last
good renewal and stops well before another replica may start.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

from liqod.apimachinery.kinds import LEASES
from liqod.apimachinery.meta import Partial
from liqod.errors import AlreadyExists, Conflict, Expired, LiqodError, NotFound, TransientError
from liqod.kube import times
from liqod.kube.client import Client
from liqod.kube.leases import Lease, LeaseTerm, term_of
from liqod.kube.selection import Selection
from liqod.kube.watch import Bookmark
from liqod.model.peering import intervals

DURATION = intervals.LEADER_LEASE
RENEW_DEADLINE = intervals.LEADER_STOPS_AFTER
RETRY = intervals.LEADER_RENEWS_EVERY
"""Seconds between renewals, and between attempts to read the Lease while its watch fails."""
RELEASE_DEADLINE = 2.0
"""Seconds that the release may take at a clean stop."""
PACE = 0.1
"""Seconds before an ended watch is restarted."""
WATCH_SECONDS = 300

log = logging.getLogger(__name__)


class LeadershipLost(TransientError):
    """The Lease could not be renewed in time, or another holds it."""


class LeaseObservation(msgspec.Struct, frozen=True):
    """A Lease as last seen.

    Attributes:
        lease: its content.
        since: time (``trio.current_time``) since which it has this content.
    """

    lease: Lease
    since: float

    def free_at(self) -> float:
        """The time from which another may take it: at once if released, else after its duration."""
        spec = self.lease.spec
        if not spec.holder_identity:
            return self.since
        return self.since + float(spec.lease_duration_seconds or DURATION)


def observe(before: LeaseObservation | None, lease: Lease, now: float) -> LeaseObservation:
    """The observation after the Lease was read; its time counts from the last change."""
    if before is not None and before.lease.spec == lease.spec:
        return LeaseObservation(lease, before.since)
    return LeaseObservation(lease, now)


class LeaderElection:
    """One candidate for one Lease.

    Args:
        client: client of the API server.
        name: of the Lease.
        namespace: of the Lease.
        identity: unique among the candidates, such as host name and a random part.
        standing_by: called with the leader's identity on each change, until this one leads.
        cut_off: called with the reason once the Lease could not be read for its duration.
        on_term: called with each term that is seen or begun, and when one of this candidate ends.
        notes: annotations that the Lease gets when this one takes it; they stay after its release.

    Attributes:
        leader: the leader's identity, as far as known; ``""`` for none.
        leading: whether this candidate leads.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        identity: str,
        *,
        standing_by: Callable[[str], None] = lambda _: None,
        cut_off: Callable[[str], None] = lambda _: None,
        on_term: Callable[[LeaseTerm], None] = lambda _: None,
        notes: Mapping[str, str] | None = None,
    ) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace
        self._identity = identity
        self._seen: LeaseObservation | None = None
        self._version = ""
        self._standing_by, self._cut_off, self._on_term = standing_by, cut_off, on_term
        self._is_cut_off = False
        self._term = LeaseTerm(0, 0, False)
        self._notes = {"annotations": dict(notes)} if notes else {}
        self._complained = False
        self.leader = ""
        self.leading = False

    @asynccontextmanager
    async def leadership(self) -> AsyncIterator[None]:
        """Wait for leadership, run the body while it lasts, and release the Lease at the end.

        Raises:
            LeadershipLost: the Lease is lost; the body has then been cancelled. Errors of the body
                come in an exception group, as those of any nursery.
        """
        renewed = await self._acquire()
        self.leading, lost = True, False
        try:
            async with trio.open_nursery() as nursery:

                async def renew() -> None:
                    nonlocal lost
                    await self._keep(renewed)
                    lost = True
                    self._stop_leading()
                    nursery.cancel_scope.cancel()

                nursery.start_soon(renew)
                yield
                nursery.cancel_scope.cancel()
        finally:
            self._stop_leading()
            if not lost:
                await self._release()
        if lost:
            raise LeadershipLost(f"the lease {self._namespace}/{self._name} was lost")

    def _stop_leading(self) -> None:
        self.leading = False
        self._enter(msgspec.structs.replace(self._term, held=False))

    def _enter(self, term: LeaseTerm) -> None:
        if term != self._term:
            self._term = term
            self._on_term(term)

    async def _acquire(self) -> float:
        """Wait for the Lease to be free and take it; returns the time from which it counts."""
        while True:
            try:
                seen = await self._read()
                if seen is not None and self._is_taken(seen):
                    await self._await_change(seen)
                    continue
                began = trio.current_time()
                if await self._take(seen):
                    return began
            except Expired:  # watching from there is too late: read it again
                await trio.sleep(PACE)
            except LiqodError as error:
                self._complain("leader election fails", error)
                self._doubt(error)
                await trio.sleep(RETRY)

    def _doubt(self, error: LiqodError) -> None:
        """Say that it is not known any more who leads, where that is so."""
        seen = self._seen
        if self._is_cut_off or (seen is not None and trio.current_time() < seen.free_at()):
            return
        self._is_cut_off, self.leader = True, ""
        self._cut_off(str(error))

    def _is_taken(self, seen: LeaseObservation) -> bool:
        """True if another holder may be alive. Our own name in it is from an earlier term."""
        other = seen.lease.spec.holder_identity != self._identity
        return other and trio.current_time() < seen.free_at()

    async def _read(self) -> LeaseObservation | None:
        """Read the Lease; None if it does not exist."""
        lease = await self._client.find(LEASES, self._name, self._namespace, decode=Lease)
        return None if lease is None else self._see(lease)

    def _see(self, lease: Lease) -> LeaseObservation:
        self._seen = observe(self._seen, lease, trio.current_time())
        self._version = lease.metadata.resource_version
        self._complained = self._is_cut_off = False
        holder = lease.spec.holder_identity or ""
        if holder != self.leader and holder not in ("", self._identity):
            self._standing_by(holder)
        self.leader = holder
        # Our own name in it is from an earlier term.
        self._enter(term_of(lease.metadata, lease.spec.lease_transitions or 0, held=False))
        return self._seen

    def _complain(self, sentence: str, error: LiqodError) -> None:
        """Log a failure once, and again only after a success in between."""
        if not self._complained:
            self._complained = True
            log.warning(sentence, extra={"lease": self._name, "reason": str(error)})

    async def _await_change(self, seen: LeaseObservation) -> None:
        """Watch until the Lease is free or something breaks."""
        async with self._client.watch(
            LEASES,
            Selection(self._namespace, fields=f"metadata.name={self._name}"),
            resource_version=self._version,
            seconds=WATCH_SECONDS,
        ) as watch:
            while (left := seen.free_at() - trio.current_time()) > 0:
                event = None
                with trio.move_on_after(left) as scope:
                    event = await watch.next(WATCH_SECONDS + RETRY)
                if scope.cancelled_caught:
                    return
                if event is None:
                    await trio.sleep(PACE)
                    return
                if isinstance(event, Bookmark):
                    continue
                if event.type == "DELETED":
                    return
                seen = self._see(msgspec.json.decode(event.item.body, type=Lease))

    async def _take(self, seen: LeaseObservation | None) -> bool:
        """Write our name into the Lease; False if another candidate was faster."""
        now = times.precise()
        spec: dict[str, Any] = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": int(DURATION),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        try:
            if seen is None:
                own = {"name": self._name, "namespace": self._namespace, **self._notes}
                new = {"metadata": own, "spec": spec}
                made = await self._client.create(LEASES, new, self._namespace)
            else:
                spec["leaseTransitions"] = (seen.lease.spec.lease_transitions or 0) + 1
                made = await self._patch(spec, self._notes)
        except (AlreadyExists, Conflict, NotFound):
            return False
        self._version = made.metadata.resource_version
        self._complained = False
        self.leader = self._identity
        self._enter(term_of(made.metadata, spec["leaseTransitions"], held=True))
        return True

    async def _keep(self, renewed: float) -> None:
        """Renew the Lease; returns when it is lost."""
        while True:
            await trio.sleep(RETRY)
            began = trio.current_time()
            with trio.move_on_at(renewed + RENEW_DEADLINE):
                if await self._renew():
                    renewed = began
                    continue
                return
            return

    async def _renew(self) -> bool:
        """Renew the Lease, with retries; False when another holds it."""
        while True:
            try:
                return await self._try_renewal()
            except LiqodError as error:
                self._complain("lease not renewed", error)
                await trio.sleep(RETRY / 4)

    async def _try_renewal(self) -> bool:
        while True:
            try:
                meta = await self._patch({"renewTime": times.precise()})
            except (Conflict, NotFound):
                lease = await self._client.find(LEASES, self._name, self._namespace, decode=Lease)
                if lease is None or lease.spec.holder_identity != self._identity:
                    return False
                self._version = lease.metadata.resource_version  # another client changed it
            else:
                self._complained = False
                self._version = meta.metadata.resource_version
                return True

    async def _release(self) -> None:
        """Release the Lease, so that no standby has to wait; shielded from cancellation."""
        with trio.move_on_after(RELEASE_DEADLINE, shield=True):
            try:
                await self._let_go()
            except LiqodError as error:
                extra = {"lease": self._name, "reason": str(error)}
                log.warning("lease not let go", extra=extra)

    async def _let_go(self) -> None:
        try:
            await self._patch({"holderIdentity": "", "renewTime": times.precise()})
        except Conflict:  # a cancelled renewal was executed, or another client changed it
            lease = await self._client.get(LEASES, self._name, self._namespace, decode=Lease)
            if lease.spec.holder_identity == self._identity:
                self._version = lease.metadata.resource_version
                await self._patch({"holderIdentity": "", "renewTime": times.precise()})

    async def _patch(
        self, spec: dict[str, Any], metadata: Mapping[str, Any] | None = None
    ) -> Partial:
        """Patch the Lease at its last seen version. Raises Conflict if it was changed meanwhile."""
        patch = {"metadata": {"resourceVersion": self._version, **(metadata or {})}, "spec": spec}
        return await self._client.patch(LEASES, self._name, patch, self._namespace)
