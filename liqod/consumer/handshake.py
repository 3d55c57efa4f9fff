"""The handshake with a provider, as ``liqod peer`` drives it: idempotent, and quick to notice.

The other side's rights are a peering user's: get, list, create, update, delete; no watch and no
patch. Everything is found before it is made, so a handshake that broke off is continued by doing it
again. Deadlines are the caller's.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec
import trio

from liqod.cluster import cluster_id, own_cluster_id
from liqod.consumer.asking import Asked, Progress, ask, poll, wait_borrowed
from liqod.consumer.keys import ClusterKeys, cluster_keys
from liqod.consumer.kubeconfigs import auth_patch, problem_of
from liqod.consumer.signing import SignedNonce, is_nonce
from liqod.errors import AlreadyExists, ConfigError, Forbidden, NotFound, ProtocolError
from liqod.identity import keys, requests
from liqod.kube.client import Client
from liqod.kube.kinds import EVENTS, NAMESPACES, SECRETS
from liqod.model import ids, labels
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
from liqod.tenancy import ensure_tenant_namespace, tenant_namespace
from liqod.together import together

T = TypeVar("T")

__all__ = ["Asked", "Progress", "Sides", "peer"]

ANSWERS_WITHIN = 15.0
"""Seconds after which a daemon that has not done its part of the handshake is said not to run."""
DOUBT_AFTER = 3.0
"""Seconds after which it is told that this may be so."""
REASON_AFTER = 3.0
"""Seconds of waiting for the provider after which it is asked whether it has refused."""


class Sides(msgspec.Struct, frozen=True):
    """The two clusters of a handshake and where they keep each other.

    Attributes:
        local, remote: clients; the remote one has a peering user's rights.
        here, there: cluster ids.
        local_namespace: the provider's tenant namespace here.
        remote_namespace: this cluster's tenant namespace there.
    """

    local: Client
    remote: Client
    here: str
    there: str
    local_namespace: str
    remote_namespace: str


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    reason: str = ""
    message: str = ""
    last_timestamp: str | None = None
    involved_object: dict[str, Any] = {}


async def peer(
    local: Client,
    remote: Client,
    asked: Asked | None,
    *,
    progress: Progress,
    liqo: str = labels.LIQO_NAMESPACE,
    remote_liqo: str = labels.LIQO_NAMESPACE,
    expected: str = "",
) -> str:
    """Make this cluster a consumer of the other; returns the provider's id when all works.

    Args:
        local: an administrator's client of this cluster.
        remote: a peering user's client of the provider.
        asked: what to borrow; None for nothing yet.
        progress: told what is waited for.
        liqo: liqod's namespace here.
        remote_liqo: liqod's (or Liqo's) namespace there.
        expected: the id that the provider must have; empty accepts any.

    Raises:
        ConfigError: it cannot be done, and why.
        LiqodError: an API server does not answer, or refuses.
    """
    progress("find out who both clusters are")

    async def own_side() -> tuple[str, ClusterKeys]:
        return await own_cluster_id(local, liqo), await cluster_keys(local, liqo)

    (here, own), there = await together(own_side, partial(cluster_id, remote, remote_liqo))
    if expected and there != expected:
        raise ConfigError(f"the kubeconfig leads to the cluster {there}, not to {expected}")
    if here == there:
        raise ConfigError(f"both kubeconfigs lead to clusters named {here}; ids must differ")
    sides = await meet(local, remote, here, there, progress=progress)
    signature = await exchange_nonce(sides, own, progress)
    given = await become_tenant(sides, own, signature, progress)
    await give_identity(sides, given, progress)
    if asked is None:
        await wait_reached(sides, progress)
        return there
    # Asked at once: it goes to the provider as soon as that is reached.
    before = await ask(local, here, there, sides.local_namespace, asked, own.private)
    await wait_reached(sides, progress)
    await wait_borrowed(local, there, sides.local_namespace, asked, before, progress)
    return there


async def meet(
    local: Client, remote: Client, here: str, there: str, *, progress: Progress
) -> Sides:
    """The tenant namespace on each side.

    Raises:
        ConfigError: a namespace cannot be had.
    """
    progress("make the tenant namespaces")
    namespace = await ensure_tenant_namespace(local, there)
    return Sides(local, remote, here, there, namespace, await _remote_namespace(remote, here))


async def exchange_nonce(sides: Sides, own: ClusterKeys, progress: Progress) -> bytes:
    """The provider's nonce, signed with this cluster's key."""
    step = f"wait for the nonce of {sides.there}'s daemon"
    progress(step)
    await _ask_nonce(sides)

    async def nonce() -> bytes:
        found = await sides.remote.find(
            SECRETS, labels.NONCE_SECRET, sides.remote_namespace, decode=SignedNonce
        )
        return found.nonce if found is not None else b""

    text = await _answer(nonce, f"the provider {sides.there}", step, progress)
    if not is_nonce(text):
        raise ConfigError(f"{sides.there} asks for a signature under something that is no nonce")
    return keys.sign(own.private, text)


async def become_tenant(
    sides: Sides, own: ClusterKeys, signature: bytes, progress: Progress
) -> AuthParams:
    """The Tenant at the provider and what it is given.

    Raises:
        ConfigError: the provider refuses, with its reason where it tells.
    """
    progress(f"become a tenant of {sides.there}")
    wanted = _tenant(sides, own, signature)
    try:
        await sides.remote.create(TENANTS, wanted, sides.remote_namespace)
    except AlreadyExists:
        live = await sides.remote.get(TENANTS, sides.here, sides.remote_namespace)
        if not _is_current(live, own, signature):
            live["spec"] = {**live.get("spec", {}), **wanted["spec"]}
            await sides.remote.update(TENANTS, live, sides.remote_namespace)
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
        if now - since > REASON_AFTER and now - told > 1.0:
            told = now
            reason = await _refusal(sides, found)
            if reason:
                raise ConfigError(f"{sides.there} refuses this cluster: {reason}")
        return None

    return await poll(given)


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


async def wait_reached(sides: Sides, progress: Progress) -> None:
    """Until this cluster's daemon has the identity and has reached the provider with it."""
    step = "wait for this cluster's daemon to take the identity"
    progress(step)
    name, namespace = ids.control_plane_identity(sides.there), sides.local_namespace

    async def taken() -> bool:
        found = await sides.local.get(IDENTITIES, name, namespace, decode=Identity)
        return found.status.kubeconfig_secret_ref is not None

    await _answer(taken, "this cluster", step, progress)
    step = f"wait for this cluster's daemon to reach {sides.there}"
    progress(step)

    async def reached() -> bool:
        found = await sides.local.find(FOREIGN_CLUSTERS, sides.there, decode=ForeignCluster)
        state = next(
            (c for c in (found.status.conditions if found else ()) if c.type == "APIServerStatus"),
            None,
        )
        if state is not None and state.status == "Error" and state.message:
            progress(f"{step}: {state.message}")
        return state is not None and state.status == "Established"

    await poll(reached)


async def _answer(
    look: Callable[[], Awaitable[T | None]], whose: str, step: str, progress: Progress
) -> T:
    """Ask for what a daemon does at once, again and again, but not for long.

    Raises:
        ConfigError: it has not done it in time.
    """
    with trio.move_on_after(DOUBT_AFTER):
        return await poll(look)
    progress(f"{step}: it has not answered yet; does `liqod run` work there?")
    with trio.move_on_after(ANSWERS_WITHIN - DOUBT_AFTER):
        return await poll(look)
    raise ConfigError(
        f"no daemon of {whose} answers within {ANSWERS_WITHIN:.0f} s: does `liqod run` work there? "
        "Start it and peer again, which continues what was begun"
    )


async def _remote_namespace(remote: Client, here: str) -> str:
    """This cluster's tenant namespace there: the peering user's own, or found, or made."""
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


async def _ask_nonce(sides: Sides) -> None:
    """An empty Secret there, for the provider's daemon to fill."""
    marks = {labels.NONCE: labels.TRUE, labels.REMOTE_CLUSTER_ID: sides.here}
    metadata = {"name": labels.NONCE_SECRET, "namespace": sides.remote_namespace, "labels": marks}
    secret = {"metadata": metadata, "type": "Opaque", "data": {}}
    with suppress(AlreadyExists):
        await sides.remote.create(SECRETS, secret, sides.remote_namespace)


def _tenant(sides: Sides, own: ClusterKeys, signature: bytes) -> dict[str, Any]:
    csr = requests.make_csr(own.private, sides.here, labels.CONTROL_PLANE_GROUP)
    return {
        "metadata": {
            "name": sides.here,
            "namespace": sides.remote_namespace,
            "labels": {labels.REMOTE_CLUSTER_ID: sides.here},
        },
        "spec": {
            "clusterID": sides.here,
            "publicKey": b64encode(own.public).decode(),
            "csr": b64encode(csr).decode(),
            "signature": b64encode(signature).decode(),
        },
    }


def _is_current(live: dict[str, Any], own: ClusterKeys, signature: bytes) -> bool:
    """Whether a Tenant that is there says what ours would: signatures need not be equal bytes."""
    spec = msgspec.convert(live, Tenant, strict=False).spec
    try:
        requests.check(
            spec.csr,
            common_name=spec.cluster_id,
            organization=labels.CONTROL_PLANE_GROUP,
            public_key=own.public,
        )
    except ProtocolError:
        return False
    return spec.public_key == own.public and spec.signature == signature


async def _refusal(sides: Sides, tenant: Tenant) -> str:
    """The provider's newest word on why it refuses; empty if it says nothing."""
    try:
        found = await sides.remote.list(EVENTS, sides.remote_namespace, decode=_Event)
    except Forbidden:
        return ""
    about = [
        each
        for each in found
        if each.reason == "TenantRefused" and each.involved_object.get("uid") == tenant.metadata.uid
    ]
    return max(about, key=lambda each: each.last_timestamp or "").message if about else ""
