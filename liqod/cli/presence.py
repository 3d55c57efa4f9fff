"""Checks that a daemon works for this cluster, so that no verb waits in vain for one.

The daemon's Lease shows it: a leader renews it every two seconds and releases it when it stops. Its
times are the daemon's clock, and are compared with nobody's: the API server's own dates show how
old a renewal is, and in doubt the Lease is watched for a change. A user who may not read it is not
held up.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import DEPLOYMENTS, LEASES, MUTATING_WEBHOOKS, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cli.clusters import connect
from liqod.cli.timings import ORDINARY, CommandTimings
from liqod.cluster.ownid import own_cluster_id
from liqod.errors import ConfigError, Forbidden, LiqodError, TransientError
from liqod.kube import leases
from liqod.kube.client import Client
from liqod.kube.leases import Look
from liqod.model.peering.intervals import (
    LEADER_RENEWS_EVERY,
    LEADER_STOPS_AFTER,
    LEADER_TOLD_WITHIN,
)
from liqod.model.view import whereabouts
from liqod.model.view.figures import span
from liqod.model.view.whereabouts import Whereabouts
from liqod.runtime.gather import gather
from liqod.runtime.polling import poll_until

POLL = 0.25
ASKING = 5.0
"""Seconds for finding out where a daemon is that has no socket here."""
CHECK_AGAIN = 3.0
"""Seconds between two checks while a verb waits for what the daemon does."""
CONFIRM = 1.5 * LEADER_RENEWS_EVERY
"""Seconds for which a Lease that seems old is watched: a leader changes it meanwhile."""


class Beat(msgspec.Struct, frozen=True):
    """How the daemon's Lease is renewed.

    Attributes:
        holder: who leads; empty for nobody.
        ago: seconds since it was last renewed, or let go, as far as is known; None where none has
            led here.
        gone: why the holder does not run although that is not long ago; empty where nothing
            says so.
    """

    holder: str = ""
    ago: float | None = None
    gone: str = ""


async def beat(client: Client, namespace: str, gone: str = "") -> Beat:
    """How this cluster's daemon renews its Lease: what is not fresh is watched for a change.

    Args:
        client: for this cluster.
        namespace: liqod's own.
        gone: what says that the daemon does not run, and has a fresh renewal doubted, too.
    """
    first = await leases.look(client, labels.LEADER_LEASE, namespace)
    if first is None or not first.lease.spec.renew_time:
        return Beat()
    holder, ago = first.lease.spec.holder_identity or "", first.ago
    if not holder:
        return Beat("", ago or 0.0)
    if ago is not None and ago <= LEADER_TOLD_WITHIN and not gone:
        return Beat(holder, ago)
    began = trio.current_time()
    # A leader whose clock is unknown is watched for as long as a leader may be silent.
    patience = CONFIRM if gone else max(CONFIRM, LEADER_STOPS_AFTER + 0.5 - (ago or 0.0))
    while (watched := trio.current_time() - began) < patience:
        await trio.sleep(POLL)
        seen = await leases.look(client, labels.LEADER_LEASE, namespace)
        if seen is not None and seen.lease.spec != first.lease.spec:
            return Beat(seen.lease.spec.holder_identity or "", seen.ago or 0.0)
    return Beat(holder, (ago or 0.0) + watched, gone)


@asynccontextmanager
async def daemon(
    client: Client,
    namespace: str,
    progress: Callable[[str], None],
    timings: CommandTimings = ORDINARY,
) -> AsyncIterator[None]:
    """Do something that needs this cluster's daemon; ends as soon as there is none.

    Args:
        client: for this cluster.
        namespace: liqod's own.
        progress: notified that the daemon is looked for.
        timings: how long it is waited for.

    Raises:
        NotFound: liqod is not installed here.
        ConfigError: no daemon works here, or under another id; the message says what to do.
    """
    progress("look for this cluster's daemon")
    await _works(client, namespace, timings)
    async with _guarded(client, namespace, timings):
        yield


async def advertised_addresses(client: Client, namespace: str) -> Sequence[str]:
    """Where this cluster's daemon says that it is reached, as ``HOST:PORT``.

    Raises:
        ConfigError: it does not say so.
    """
    keys_secret = await client.find(SECRETS, labels.KEYS_SECRET, namespace, decode=Partial)
    marks = keys_secret.metadata.annotations if keys_secret is not None else {}
    if not marks.get(labels.MET_AT):
        raise ConfigError(
            "nothing says where this cluster's daemon is reached: it has not run yet, or does not "
            "listen ([handshake] in its configuration); say it by --address host:port"
        )
    return marks[labels.MET_AT].split(",")


@asynccontextmanager
async def both(
    local: Client,
    namespace: str,
    remote: Client,
    remote_namespace: str,
    progress: Callable[[str], None],
    timings: CommandTimings = ORDINARY,
) -> AsyncIterator[None]:
    """The same for something that needs a provider's daemon too.

    That is looked for once, as far as its Lease may be read: a peering user may not, and a provider
    that runs Liqo itself has no such Lease; then the handshake shows.

    Raises:
        ConfigError: no daemon works there either; else as :func:`daemon`.
    """
    progress("look for both daemons")
    await gather(
        partial(_works, local, namespace, timings),
        partial(_require_there, remote, remote_namespace, timings),
    )
    async with _guarded(local, namespace, timings):
        yield


@asynccontextmanager
async def _guarded(client: Client, namespace: str, timings: CommandTimings) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:

        async def guard() -> None:
            while True:
                await trio.sleep(CHECK_AGAIN)
                try:
                    await _require(client, namespace, timings)
                except TransientError:
                    continue

        nursery.start_soon(guard)
        yield
        nursery.cancel_scope.cancel()


async def _works(client: Client, namespace: str, timings: CommandTimings) -> None:
    await _installed(client, namespace)
    await _require(client, namespace, timings)


async def _require_there(remote: Client, namespace: str, timings: CommandTimings) -> None:
    try:
        there = await leases.look(remote, labels.LEADER_LEASE, namespace)
    except Forbidden:
        return
    problem = await silence(remote, namespace, timings) if there is not None else ""
    if problem:
        raise ConfigError(
            f"no daemon works for the provider: {problem}; there, "
            f"{await how_to_start(remote, namespace)}, and do this again"
        )


async def _installed(client: Client, namespace: str) -> None:
    try:
        await own_cluster_id(client, namespace)
    except Forbidden:
        return


async def _require(client: Client, namespace: str, timings: CommandTimings) -> None:
    problem = await silence(client, namespace, timings)
    if problem:
        remedy = await how_to_start(client, namespace)
        raise ConfigError(
            f"no daemon works for this cluster: {problem}; {remedy} and do this again"
        )


async def how_to_start(client: Client, namespace: str) -> str:
    """How to have it run: as it ran when it led last, or as it was installed; and why its pod does
    not, where it has one."""
    from liqod.install.rollout import hindrance  # brings manifests, which most verbs do without

    found = await _whereabouts(client, namespace)
    why = await hindrance(client, namespace) if found.pod else ""
    return whereabouts.start(found, namespace, why)


async def elsewhere(kubeconfig: Path | None, context: str, verb: str) -> str:
    """Where the daemon of the cluster that a kubeconfig leads to answers a command; a sentence.

    Empty where nothing can be found out in a few seconds.
    """
    with trio.move_on_after(ASKING), suppress(LiqodError):
        async with await connect(kubeconfig, context) as client:
            return await daemon_hint(client, labels.LIQO_NAMESPACE, verb)
    return ""


async def daemon_hint(client: Client, namespace: str, verb: str) -> str:
    """Where this cluster's daemon answers a command, or why it does not; a sentence."""
    seen = await leases.look(client, labels.LEADER_LEASE, namespace)
    problem = verdict(seen, None)
    if problem:
        return f"none works for this cluster: {problem}; {await how_to_start(client, namespace)}"
    return whereabouts.daemon_step(await _whereabouts(client, namespace), namespace, verb)


async def _whereabouts(client: Client, namespace: str) -> Whereabouts:
    with suppress(Forbidden):
        if (
            await client.find(DEPLOYMENTS, whereabouts.DEPLOYMENT, namespace, decode=Partial)
            is not None
        ):
            return Whereabouts(pod=True)
    with suppress(Forbidden):
        lease = await client.find(LEASES, labels.LEADER_LEASE, namespace, decode=Partial)
        if lease is not None:
            return whereabouts.read(lease.metadata.annotations)
    return Whereabouts()


async def silence(client: Client, namespace: str, timings: CommandTimings) -> str:
    """Why nobody answers, after a short wait; empty where a daemon works or cannot be seen."""
    deadline = trio.current_time() + timings.grace
    before: Look | None = None
    problem = ""

    async def known() -> bool:
        nonlocal before, problem
        try:
            seen = await leases.look(client, labels.LEADER_LEASE, namespace)
        except Forbidden:
            problem = ""
            return True
        problem = verdict(seen, before, timings.silent_after)
        before = before or seen
        return not problem or trio.current_time() > deadline

    await poll_until(known, longest_pause=POLL)
    return problem


def verdict(
    seen: Look | None, before: Look | None, silent_after: float = ORDINARY.silent_after
) -> str:
    """Why a Lease has no living holder; empty where it has one, or where that is in doubt.

    Args:
        seen: as it is.
        before: as it was; a change proves life, whatever any clock says.
        silent_after: seconds without a renewal after which it has none.
    """
    if seen is None:
        return "none has run here yet"
    spec = seen.lease.spec
    if not spec.renew_time:
        return "its Lease was never renewed"
    if not spec.holder_identity:
        return "it was stopped" + (f" {span(seen.ago)} ago" if seen.ago is not None else "")
    changed = before is not None and before.lease.spec.renew_time != spec.renew_time
    if changed or (seen.ago is not None and seen.ago <= silent_after):
        return ""
    if seen.ago is None:
        return "its Lease is not renewed" if before is not None else ""
    return f"last heard of {span(seen.ago)} ago"


async def webhook_verdict(client: Client) -> str:
    """The daemon's record of the way from the API server to its webhook: ``true``, or why not.

    Empty where nothing is noted, or it may not be read.
    """
    try:
        hooks = await client.list(MUTATING_WEBHOOKS, decode=Partial)
    except Forbidden:
        return ""
    verdicts = (hook.metadata.annotations.get(labels.WEBHOOK_REACHABLE) for hook in hooks)
    return next(filter(None, verdicts), "")
