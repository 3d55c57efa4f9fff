"""Makes requests to other clusters, as ``liqod peer`` does; the daemon carries them out.

A caller that waits for the answer polls the request, and may stop at any time: run again, it finds
the same one. Deadlines are the caller's.
"""

from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from math import inf
from typing import Any, Final

import msgspec
import trio

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import SECRETS
from liqod.apimachinery.meta import Partial
from liqod.cluster.tenancy import find_tenant
from liqod.errors import AlreadyExists, ConfigError, Conflict, LiqodError, NotFound
from liqod.kube.client import Client
from liqod.model.objects import quantities
from liqod.resources import OUTGOING_PEERINGS, RESOURCE_SLICES, OutgoingPeering, ResourceSlice
from liqod.resources.authentication import PERMISSION_WITHDRAWN
from liqod.resources.peering import JOINED, NOT_SEEN, REACHED
from liqod.runtime.polling import poll_until
from liqod.runtime.progress import Progress

LAST_WORD: Final = 3.0
"""Seconds for removing the remains of a request that was not completed."""
SEEN_WITHIN: Final = 5.0
"""Seconds to wait for a cluster that no source has seen; it may announce itself once in a few
seconds."""
FORMER: Final = 8
"""Former words that a request remembers."""
ENDED = ("Denied", "Refused", "Expired", "Cancelled", "Failed")


class PeeringRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request of this cluster to another one.

    Attributes:
        name: of the request.
        addresses: of its daemon, as ``HOST:PORT``; none where discovery is to find them.
        cluster_id: the id that it must have; empty for any.
        key: SHA-256 of the key that it must have, hexadecimal; empty where words are compared.
        invitation: id and secret of an invitation; None for none.
        resources, slice, networking, replace, lend, awaited: as of
            :class:`~liqod.resources.peering.OutgoingPeeringSpec`.
        virtual_nodes: as of :class:`~liqod.procedures.resourcerequest.ResourceRequest`.
        sought: whether a policy makes the request, since the cluster is seen.
        confirms: whether a user has compared the words of the request that waits, so that this one
            goes on as it is: another would have other words.
    """

    name: str
    addresses: tuple[str, ...] = ()
    cluster_id: str = ""
    key: str = ""
    invitation: tuple[str, bytes] | None = None
    resources: dict[str, str] = {}
    slice: str = ""
    virtual_nodes: str = ""
    networking: bool = True
    replace: bool = False
    lend: bool = False
    awaited: bool = False
    sought: bool = False
    confirms: bool = False

    def __repr__(self) -> str:
        return f"Request({self.name!r})"


class NotSeen(ConfigError):
    """No source gives the address of the requested cluster."""


async def ensure_request(client: Client, namespace: str, request: PeeringRequest) -> bool:
    """Make the request; one that has ended, or has other contents, begins anew.

    Returns True if it was made just now.

    Args:
        client: an administrator's.
        namespace: liqod's own.
        request: the request.

    Raises:
        ConfigError: words are confirmed of a request that does not wait, or has other contents.
    """
    live = await client.find(OUTGOING_PEERINGS, request.name, namespace, decode=OutgoingPeering)
    if request.confirms:
        _check_confirmed(live, request)
        return False
    words: tuple[str, ...] = ()
    if live is not None and (not _goes_on(live, request) or await _is_withdrawn(client, live)):
        await client.delete(OUTGOING_PEERINGS, live.name, namespace, uid=live.metadata.uid)
        await client.delete(SECRETS, secret_of(live.name), namespace)
        words = shown_words(live)
        live = None
    if live is not None:
        return False
    spec: dict[str, Any] = {
        "addresses": list(request.addresses),
        "resources": dict(request.resources),
        "networking": request.networking,
    }
    others = {
        "clusterID": request.cluster_id,
        "key": request.key,
        "slice": request.slice,
        "replace": request.replace,
        "lend": request.lend,
        "awaited": request.awaited,
    }
    spec |= {field: value for field, value in others.items() if value}
    if request.invitation is not None:
        await _keep_invitation(client, namespace, request.name, *request.invitation)
        spec["invitationSecret"] = secret_of(request.name)
    marks = {labels.MANAGED: labels.TRUE}
    if request.sought:
        marks[labels.SOUGHT] = labels.TRUE
    notes = remembered(words) if words else {}
    if request.virtual_nodes:
        notes[labels.VIRTUAL_NODES] = request.virtual_nodes
    metadata: dict[str, Any] = {"name": request.name, "labels": marks, "annotations": notes}
    try:
        await client.create(OUTGOING_PEERINGS, {"metadata": metadata, "spec": spec}, namespace)
    except BaseException:
        if request.invitation is not None:
            await _drop_invitation(client, namespace, request.name)
        raise
    return True


async def take_back(client: Client, namespace: str, name: str) -> None:
    """Delete a request. Raises LiqodError where the API server refuses."""
    await client.delete(OUTGOING_PEERINGS, name, namespace)


def taking_back(namespace: str, name: str) -> str:
    """The command that takes a request back."""
    return f"`kubectl -n {namespace} delete outgoingpeering {name}`"


def going_on(namespace: str, name: str) -> str:
    """The hint, after a command stopped waiting, that the daemon goes on."""
    return f"the daemon goes on asking {name}: {taking_back(namespace, name)} ends that"


def secret_of(name: str) -> str:
    """Name of the Secret with the invitation of a request, by the request's."""
    return f"{name}-invitation"


def shown_words(request: OutgoingPeering) -> tuple[str, ...]:
    """The words that a request has shown until now, the newest last."""
    before = request.metadata.annotations.get(labels.FORMER_WORDS, "").split()
    now = [request.status.words] if request.status.words else []
    return (*(each for each in before if each not in now), *now)


def remembered(words: Iterable[str]) -> dict[str, str]:
    """Annotations of a request that distinguish former words from those of a man in the middle."""
    return {labels.FORMER_WORDS: " ".join(tuple(words)[-FORMER:])}


def _check_confirmed(live: OutgoingPeering | None, request: PeeringRequest) -> None:
    """Check that a request with compared words goes on as it is. Raises ConfigError if not."""
    name = request.name
    if live is None:
        raise ConfigError(
            f"nothing is asked of {name}, so no words are to be compared: `liqod peer {name}` asks"
        )
    if live.leaving or live.status.phase in ENDED:
        raise ConfigError(
            f"what was asked of {name} has ended ({live.status.phase or 'taken back'}): "
            f"`liqod peer {name}` asks anew, with new words"
        )
    if (request.resources or request.slice or request.virtual_nodes) and not _is_same(
        live, request
    ):
        asked = ", ".join(f"{each} {amount}" for each, amount in live.spec.resources.items())
        raise ConfigError(
            f"the words are of the request that waits, which asks {name} for "
            f"{asked or 'what it lends by default'}: `liqod peer {name} --words …` and nothing "
            "else goes on with that; without --words, other things are asked for, with new words"
        )


def _goes_on(live: OutgoingPeering, request: PeeringRequest) -> bool:
    """True if an existing request is the wanted one."""
    if live.leaving or live.status.phase in ENDED:
        return False
    if request.replace and (live.status.phase == "Done" or not live.spec.replace):
        return False
    if live.status.phase == "Done" and request.invitation is not None:
        return True  # it was used by this
    return _is_same(live, request)


def _is_same(live: OutgoingPeering, request: PeeringRequest) -> bool:
    same = live.spec.slice == request.slice and set(live.spec.resources) == set(request.resources)
    known = live.metadata.annotations.get(labels.VIRTUAL_NODES, "")
    same = same and request.virtual_nodes in ("", known)
    return same and all(
        quantities.equal(live.spec.resources[name], n) for name, n in request.resources.items()
    )


async def _is_withdrawn(client: Client, live: OutgoingPeering) -> bool:
    """True if a request led to a peering that the provider has ended since."""
    if live.status.phase != "Done" or live.spec.lend:
        return False
    peer = live.status.cluster_id
    tenant = await find_tenant(client, peer)
    if tenant is None:
        return True
    name = live.spec.slice or peer
    found = await client.find(RESOURCE_SLICES, name, tenant.name, decode=ResourceSlice)
    conditions = found.status.conditions if found is not None else ()
    return any(each.reason == PERMISSION_WITHDRAWN for each in conditions)


async def _drop_invitation(client: Client, namespace: str, name: str) -> None:
    """Deletes the secret of an invitation, unless its request exists, which needs it."""
    with trio.move_on_after(LAST_WORD, shield=True), suppress(LiqodError):
        if await client.find(OUTGOING_PEERINGS, name, namespace, decode=Partial) is None:
            await client.delete(SECRETS, secret_of(name), namespace)


async def _keep_invitation(
    client: Client, namespace: str, name: str, invitation: str, secret: bytes
) -> None:
    metadata = {"name": secret_of(name), "labels": {labels.MANAGED: labels.TRUE}}
    data = {
        "id": b64encode(invitation.encode()).decode(),
        "secret": b64encode(secret).decode(),
    }
    made = {"metadata": metadata, "type": "Opaque", "data": data}
    try:
        await client.create(SECRETS, made, namespace)
    except AlreadyExists:
        await client.patch(SECRETS, secret_of(name), {"data": data}, namespace)


async def confirm(client: Client, namespace: str, name: str, words: str) -> None:
    """Confirm that the other side shows these words: from now on its key is the expected one.

    Raises:
        ConfigError: no cluster has answered yet, or the words differ: there is a man in the middle;
            or another key is expected already, which words do not replace.
    """
    live = await client.get(OUTGOING_PEERINGS, name, namespace, decode=OutgoingPeering)
    shown = live.status.words
    if not shown or not live.status.key:
        raise ConfigError(f"nothing has answered for {name} yet, so there are no words to compare")
    if live.spec.key not in ("", live.status.key):
        raise ConfigError(other_key(live))
    said = "-".join(words.lower().replace("-", " ").split())
    if said != shown and said in shown_words(live):
        raise ConfigError(
            f"these were the words of {name} before: what is asked has changed since, or the "
            f"connection broke, and then both sides show others. Compare anew: {shown}, and "
            f"`liqod peer {name} --words {shown}` if {name} shows the same"
        )
    if said != shown:
        raise ConfigError(
            f"these are not the words that are shown here ({shown}): somebody may stand between. "
            f"Do not go on; {taking_back(namespace, name)} takes the request back"
        )
    patch = {
        "metadata": {"resourceVersion": live.metadata.resource_version},
        "spec": {"key": live.status.key},
    }
    try:
        await client.patch(OUTGOING_PEERINGS, name, patch, namespace)
    except Conflict:
        await confirm(client, namespace, name, words)


def other_key(request: OutgoingPeering) -> str:
    """The reason to stop with a cluster that shows another key than the expected one."""
    shown, expected, name = request.status.key, request.spec.key, request.name
    return (
        f"what answers for {name} shows the key {shown[:16]}…, and {expected[:16]}… is expected by"
        f" the configuration or by whoever asked: find out which key {name} has; if it is the one"
        f" that is shown, name that in [[peers]], and ask with `liqod peer {name} --replace`"
    )


async def _ignored(found: OutgoingPeering) -> None:
    """Shows nothing."""


async def wait(
    client: Client,
    namespace: str,
    name: str,
    progress: Progress,
    shown: Callable[[OutgoingPeering], Awaitable[None]] = _ignored,
) -> OutgoingPeering:
    """The request when it has led to a peering.

    Args:
        client, namespace: as of :func:`ensure_request`.
        name: of the request.
        progress: called with the daemon's present step.
        shown: called with the request after each look at it.

    Raises:
        ConfigError: it has ended otherwise, with the reason.
        NotSeen: for :data:`SEEN_WITHIN` no source has given the cluster's address.
    """
    unseen = inf

    async def look() -> OutgoingPeering | None:
        found = await client.find(OUTGOING_PEERINGS, name, namespace, decode=OutgoingPeering)
        if found is None:
            raise NotFound(f"the request {name} was taken back", served=True)
        status = found.status
        if status.phase in ENDED:
            who = status.cluster_id or name
            what = f"nothing is lent to {who}" if found.spec.lend else f"{who} does not agree"
            raise ConfigError(f"{what} ({status.phase}): {status.message}")
        nonlocal unseen
        unseen = min(unseen, trio.current_time()) if _is_unseen(found) else inf
        if trio.current_time() - unseen > SEEN_WITHIN:
            raise NotSeen(status.message)
        progress(status.message or _step(found))
        await shown(found)
        return found if status.phase == "Done" else None

    return await poll_until(look, longest_pause=0.3)


def without_network(found: OutgoingPeering) -> str:
    """The reason why clusters were peered without a requested network; empty for none."""
    steps = (each for each in found.status.conditions if each.type == JOINED)
    return next((each.message for each in steps if each.status == "False"), "")


def _is_unseen(found: OutgoingPeering) -> bool:
    return any(
        each.type == REACHED and each.status == "False" and each.reason == NOT_SEEN
        for each in found.status.conditions
    )


def _step(found: OutgoingPeering) -> str:
    who = found.status.cluster_id or found.spec.cluster_id or "the other cluster"
    if found.spec.lend and found.status.phase:
        return f"wait for {who} to borrow"
    return {
        "": f"reach the daemon of {who}",
        "Waiting": f"wait for the answer of {who}",
        "Accepted": f"peer with {who}",
    }.get(found.status.phase, f"peered with {who}")
