"""Runs the handshake with a provider by a kubeconfig, as ``liqod peer`` does; idempotent.

The other side's rights are a peering user's: get, list, create, update, delete; no watch and no
patch. Every object is looked up before it is made, so another run continues a handshake that broke
off. Deadlines are the caller's.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import NAMESPACES, SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cluster.ownid import cluster_id, own_cluster_id
from liqod.cluster.tenancy import ensure_tenant_namespace, find_tenant_namespace, tenant_namespace
from liqod.consumer.identities.clusterkeys import ClusterKeys, cluster_keys
from liqod.consumer.identities.kubeconfigs import auth_patch, problem_of
from liqod.consumer.identities.providerpinning import (
    ServerPin,
    differs,
    existing_pin,
    pin_of,
    same_authority,
)
from liqod.consumer.identities.signing import SignedNonce, is_nonce
from liqod.errors import AlreadyExists, ConfigError, Forbidden, NotFound
from liqod.identity import keys
from liqod.kube.client import Client
from liqod.kube.http import proxies
from liqod.model import ids
from liqod.model.peering.foreigncluster import API_SERVER, ERROR, ESTABLISHED
from liqod.procedures import networksites
from liqod.procedures.inbandpeering import InBandOptions
from liqod.procedures.networkjoin import Joining
from liqod.procedures.resourcerequest import ResourceRequest
from liqod.procedures.slicerequest import ensure_slice, wait_borrowed
from liqod.procedures.tenantrequest import Sides, asks_for, refusal, write_tenant
from liqod.procedures.timings import ORDINARY, PeeringTimings
from liqod.resources import (
    FOREIGN_CLUSTERS,
    IDENTITIES,
    TENANTS,
    AuthParams,
    ForeignCluster,
    Identity,
    Tenant,
)
from liqod.resources.authentication import CONTROL_PLANE
from liqod.runtime.gather import gather
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress, Step

T = TypeVar("T")


async def peer(
    local: Client,
    remote: Client,
    asked: ResourceRequest | None,
    *,
    progress: Progress,
    liqo: str = labels.LIQO_NAMESPACE,
    remote_liqo: str = labels.LIQO_NAMESPACE,
    expected: str = "",
    replace: bool = False,
    joining: Joining | None = None,
    in_band: InBandOptions | None = None,
    timings: PeeringTimings = ORDINARY,
) -> str:
    """Make this cluster a consumer of the other; returns the provider's id when all works.

    Args:
        local: an administrator's client of this cluster.
        remote: a peering user's client of the provider.
        asked: the resources to borrow; None for none yet.
        progress: called with each awaited step.
        liqo: liqod's namespace in this cluster.
        remote_liqo: liqod's (or Liqo's) namespace at the provider.
        expected: the id that the provider must have; empty accepts any.
        replace: the operator's confirmation that a provider with a known id is elsewhere now.
        joining: joins the networks, too; None leaves them as they are.
        in_band: has this cluster go to the provider's API server by a proxy, or the tunnel.
        timings: the times to wait for the daemons.

    Raises:
        ConfigError: it fails, with the reason; also where another cluster has the id already.
    """
    progress("find out who both clusters are")

    async def own_side() -> tuple[str, ClusterKeys]:
        return await own_cluster_id(local, liqo), await cluster_keys(local, liqo)

    (here, own), there = await gather(own_side, partial(cluster_id, remote, remote_liqo))
    if expected and there != expected:
        raise ConfigError(f"the kubeconfig leads to the cluster {there}, not to {expected}")
    if here == there:
        raise ConfigError(f"both kubeconfigs lead to clusters named {here}; ids must differ")
    known = None if replace else await _existing_pin(local, remote, there)
    await _refuse_revoked(local, there, replace=replace)
    sides = await meet(local, remote, here, there, progress=progress)
    if joining is not None:
        # Before the handshake ends: from then on a peering user may only read.
        await joining.start(*networksites.sites(sides, liqo, remote_liqo))
    if in_band is not None:
        proxy = await in_band.proxy(*networksites.sites(sides, liqo, remote_liqo), progress)
        sides = msgspec.structs.replace(sides, proxy=proxy)
    own = own if replace else await key_at(local, own, there, sides.local_namespace)
    given = await admitted(sides, own, progress, timings)
    if known is not None and differs(pin_of(given.api_server, given.ca), known):
        raise ConfigError(_impostor(there, pin_of(given.api_server, given.ca), known))
    await give_identity(sides, given, progress)
    if asked is None:
        await wait_reached(sides, given, progress, timings)
        await _joined(joining, timings)
        return there
    # Made at once: it goes to the provider as soon as that is reached.
    before = await ensure_slice(local, here, there, sides.local_namespace, asked, own.private)
    await wait_reached(sides, given, progress, timings)
    await wait_borrowed(local, there, sides.local_namespace, asked, before, progress)
    await _joined(joining, timings)
    return there


async def key_at(local: Client, own: ClusterKeys, there: str, namespace: str) -> ClusterKeys:
    """The pair of keys that a provider has of this cluster; the present one where it is new.

    Args:
        local: of this cluster.
        own: its keys.
        there: the provider's id.
        namespace: its tenant namespace in this cluster.
    """
    if own.former is None:
        return own
    name = ids.control_plane_identity(there)
    known = await local.find(IDENTITIES, name, namespace, decode=Identity)
    return own if known is None else own.of(known.spec.auth_params.signed_crt)


async def _joined(joining: Joining | None, timings: PeeringTimings) -> None:
    if joining is not None:
        await joining.finish(timings)


async def meet(
    local: Client, remote: Client, here: str, there: str, *, progress: Progress
) -> Sides:
    """The tenant namespace on each side.

    Raises:
        ConfigError: a namespace cannot be made.
    """
    progress("make the tenant namespaces")
    namespace = await ensure_tenant_namespace(local, there)
    return Sides(local, remote, here, there, namespace, await _remote_namespace(remote, here))


async def _refuse_revoked(local: Client, there: str, *, replace: bool) -> None:
    """Refuse a provider that was revoked, unless the operator takes that back.

    Raises:
        ConfigError: it was revoked.
    """
    namespace = await find_tenant_namespace(local, there)
    if namespace is None:
        return
    live = await local.get(NAMESPACES, namespace, decode=Partial)
    if labels.REVOKED_PROVIDER not in live.metadata.annotations:
        return
    if not replace:
        raise ConfigError(f"{there} was revoked here: --replace takes that back")
    marks = (labels.REVOKED_PROVIDER, labels.REVOKED_PROVIDER_KEYS)
    lifted = {"metadata": {"annotations": dict.fromkeys(marks)}}
    await local.patch(NAMESPACES, namespace, lifted)


async def _existing_pin(local: Client, remote: Client, there: str) -> ServerPin | None:
    """The known server of the provider with an id; None where it is new.

    Raises:
        ConfigError: the kubeconfig leads to a server for which another authority vouches.
    """
    namespace = await find_tenant_namespace(local, there)
    known = await existing_pin(local, there, namespace) if namespace is not None else None
    if known is not None:
        found = pin_of(remote.server, remote.authority)
        if not same_authority(found, known) or (
            not known.authority and found.server != known.server
        ):
            raise ConfigError(_impostor(there, found, known))
    return known


def _impostor(there: str, found: ServerPin, known: ServerPin) -> str:
    return (
        f"{found.named()} says that it is {there}, but {there} is known here at {known.named()}:"
        " if it was moved or made anew, and you know that this is it, say --replace"
    )


async def admitted(
    sides: Sides, own: ClusterKeys, progress: Progress, timings: PeeringTimings
) -> AuthParams:
    """The access that the provider gives: that of an accepted Tenant, or of one made now.

    A Tenant that was accepted is left as it is: by then a peering user may only read it.
    """
    progress(f"look whether {sides.there} knows this cluster")
    live = await sides.remote.find(TENANTS, sides.here, sides.remote_namespace, decode=Tenant)
    if live is not None and not live.leaving and asks_for(live, own):
        given = live.status.auth_params
        if given is not None and sides.proxy and given.proxy_url != sides.proxy:
            raise ConfigError(
                f"{sides.there} knows this cluster already, "
                + (
                    f"by the proxy {proxies.shown(given.proxy_url)}"
                    if given.proxy_url
                    else "without a proxy"
                )
                + ": only its administrator may change that, or `liqod unpeer` and peer anew"
            )
        if given is not None and problem_of(given, own.public) is None:
            return given
    signature = await exchange_nonce(sides, own, progress, timings)
    return await become_tenant(sides, own, signature, progress, timings)


async def exchange_nonce(
    sides: Sides, own: ClusterKeys, progress: Progress, timings: PeeringTimings
) -> bytes:
    """The provider's nonce, signed with this cluster's key."""
    step = f"wait for the nonce of {sides.there}'s daemon"
    progress(step)
    await _request_nonce(sides)

    async def nonce() -> bytes:
        found = await sides.remote.find(
            SECRETS, labels.NONCE_SECRET, sides.remote_namespace, decode=SignedNonce
        )
        return found.nonce if found is not None else b""

    text = await _answer(nonce, f"the provider {sides.there}", step, progress, timings)
    if not is_nonce(text):
        raise ConfigError(f"{sides.there} asks for a signature under something that is no nonce")
    return keys.sign(own.private, text)


async def become_tenant(
    sides: Sides,
    own: ClusterKeys,
    signature: bytes,
    progress: Progress,
    timings: PeeringTimings,
) -> AuthParams:
    """Makes the Tenant at the provider, and returns the access that it gets.

    Raises:
        ConfigError: the provider refuses, with its reason where it gives one.
    """
    progress(f"become a tenant of {sides.there}")
    await write_tenant(sides, own, signature)
    progress(f"wait for the certificate of {sides.there}")
    since = trio.current_time()
    told = 0.0

    async def given() -> AuthParams | None:
        nonlocal told
        found = await sides.remote.get(TENANTS, sides.here, sides.remote_namespace, decode=Tenant)
        params = found.status.auth_params
        if params is not None and problem_of(params, own.public) is None:
            return params
        now = trio.current_time()
        if now - since > timings.reason_after and now - told > 1.0:
            told = now
            reason = await refusal(sides, found)
            if reason:
                raise ConfigError(f"{sides.there} refuses this cluster: {reason}")
        return None

    return await poll_until(given)


async def give_identity(sides: Sides, given: AuthParams, progress: Progress) -> None:
    """The Identity of the control plane, for this cluster's daemon."""
    progress(f"tell this cluster's daemon of {sides.there}")
    name, namespace = ids.control_plane_identity(sides.there), sides.local_namespace
    spec = {
        "clusterID": sides.there,
        "type": CONTROL_PLANE,
        "namespace": sides.remote_namespace,
        "authParams": msgspec.to_builtins(given),
    }
    identity = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {labels.REMOTE_CLUSTER_ID: sides.there},
        },
        "spec": spec,
    }
    try:
        await sides.local.create(IDENTITIES, identity, namespace)
    except AlreadyExists:
        patch = {"spec": {**spec, "authParams": auth_patch(given)}}
        await sides.local.patch(IDENTITIES, name, patch, namespace)


async def wait_reached(
    sides: Sides, given: AuthParams, progress: Progress, timings: PeeringTimings
) -> None:
    """Wait until this cluster's daemon has the identity and has reached the provider with it."""
    step = "wait for this cluster's daemon to take the identity"
    progress(step)
    name, namespace = ids.control_plane_identity(sides.there), sides.local_namespace

    async def taken() -> bool:
        found = await sides.local.get(IDENTITIES, name, namespace, decode=Identity)
        return found.status.kubeconfig_secret_ref is not None

    await _answer(taken, "this cluster", step, progress, timings)
    step = f"wait for this cluster's daemon to reach {sides.there} at {given.api_server}"
    progress(step)

    async def reached() -> bool:
        found = await sides.local.find(FOREIGN_CLUSTERS, sides.there, decode=ForeignCluster)
        state = next(
            (c for c in (found.status.conditions if found else ()) if c.type == API_SERVER),
            None,
        )
        if state is not None and state.status == ERROR and state.message:
            progress(Step(step, state.message))
        return state is not None and state.status == ESTABLISHED

    await poll_until(reached)


async def _answer(
    look: Callable[[], Awaitable[T | None]],
    whose: str,
    step: str,
    progress: Progress,
    timings: PeeringTimings,
) -> T:
    """Poll for a result that a daemon gives at once, but not for long.

    Raises:
        ConfigError: there is none in time.
    """
    within = timings.answers_within
    with trio.move_on_after(timings.doubt_after):
        return await poll_until(look)
    progress(Step(step, "it has not answered yet; does `liqod run` work there?"))
    with trio.move_on_after(within - timings.doubt_after):
        return await poll_until(look)
    raise ConfigError(
        f"no daemon of {whose} answers within {within:.0f} s: does `liqod run` work there? "
        "Start it and peer again, which continues what was begun"
    )


async def _remote_namespace(remote: Client, here: str) -> str:
    """This cluster's tenant namespace at the provider: the peering user's own, found, or made."""
    if remote.namespace != "default":
        return remote.namespace
    try:
        return await ensure_tenant_namespace(remote, here)
    except Forbidden:
        wanted = tenant_namespace(here)["metadata"]["name"]
        found = await remote.find(NAMESPACES, wanted)
        if found is None:
            raise NotFound(f"the provider has no namespace {wanted}") from None
        return str(wanted)


async def _request_nonce(sides: Sides) -> None:
    """Make an empty Secret at the provider, for its daemon to fill."""
    marks = {labels.NONCE: labels.TRUE, labels.REMOTE_CLUSTER_ID: sides.here}
    metadata = {"name": labels.NONCE_SECRET, "namespace": sides.remote_namespace, "labels": marks}
    secret = {"metadata": metadata, "type": "Opaque", "data": {}}
    if await sides.remote.find(SECRETS, labels.NONCE_SECRET, sides.remote_namespace) is not None:
        return
    with suppress(AlreadyExists):
        await sides.remote.create(SECRETS, secret, sides.remote_namespace)
