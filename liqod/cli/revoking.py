"""``revoke``: a peer's trust, rights and bindings are gone at once, and stay gone.

Works on objects alone, whether or not the daemon runs: what it would still make is looked for
again, until nothing comes back.
"""

from typing import Annotated

import msgspec
import trio
import typer

from liqod.cli import common, completing, terminal
from liqod.consumer import forsaking
from liqod.errors import ConfigError
from liqod.kube.client import Client
from liqod.kube.kinds import NAMESPACES
from liqod.kube.meta import Partial
from liqod.model import labels
from liqod.provider.tenants import revocation
from liqod.provider.tenants.revocation import Living
from liqod.tenancy import find_tenant_namespace

QUIET = 1.0
"""Seconds between two looks; what a daemon has begun to make is there by then."""


class Revoked(msgspec.Struct, frozen=True):
    """What came of it.

    Attributes:
        peer: the peer's cluster id.
        roles: what it was to this cluster: ``consumer``, ``provider``, or both.
        removed: what was removed now, one line for each object.
        lives: what ends by itself only.
    """

    peer: str
    roles: tuple[str, ...]
    removed: tuple[str, ...]
    lives: tuple[Living, ...]


def revoke(
    peer_id: Annotated[
        str,
        typer.Argument(
            metavar="PEER", help="The peer's cluster id.", autocompletion=completing.peers
        ),
    ],
    yes: common.Yes = False,
    output: common.Output = "text",
    kubeconfig: common.Kubeconfig = None,
    context: common.Context = "",
    timeout: common.Timeout = 120.0,
) -> None:
    """Take back at once what a peer was given, or gave.

    Of a consumer every right goes, with its namespaces here and their pods; of a provider this
    cluster's way in, with its nodes here. Certificates cannot be called back, but are good for
    nothing afterwards. `liqod generate peering-user` lets it in again, `liqod peer --replace` uses
    it again.

    \b
    Examples:
      liqod revoke rome
      liqod revoke rome --yes -o json
    """
    common.check_output(output, "text", "json", "yaml")
    roles = common.run(lambda _: _roles(kubeconfig, context, peer_id), timeout=timeout)
    common.confirm(_doomed(peer_id, roles), yes=yes)

    async def main(progress: common.Progress) -> Revoked:
        async with await common.connect(kubeconfig, context) as client:
            return await carry_out(client, peer_id, roles, progress)

    done = common.run(main, timeout=timeout)
    if output != "text":
        common.emit(done, output)
        return
    for line in done.removed:
        terminal.say(f"removed: {line}")
    for each in done.lives:
        until = f" until {each.until}" if each.until else ""
        terminal.say(f"lives, without rights: {each.what}{until}")
    terminal.say(f"{peer_id} is revoked")


def _doomed(peer: str, roles: tuple[str, ...]) -> str:
    parts = []
    if "consumer" in roles:
        parts.append(f"every right that {peer} has here, its namespaces and every pod in them")
    if "provider" in roles:
        parts.append(f"this cluster's way into {peer}, its slices and its nodes")
    return "removes " + ", and ".join(parts)


async def _roles(kubeconfig: common.Kubeconfig, context: str, peer: str) -> tuple[str, ...]:
    """What the peer is to this cluster.

    Raises:
        ConfigError: nothing.
    """
    async with await common.connect(kubeconfig, context) as client:
        namespace = await find_tenant_namespace(client, peer)
        roles = []
        if namespace is not None and await revocation.is_known(client, peer, namespace):
            roles.append("consumer")
        if namespace is not None and await forsaking.is_known(client, namespace):
            roles.append("provider")
        if not roles:
            known = await client.list(
                NAMESPACES,
                labels=f"{labels.TENANT_NAMESPACE}={labels.TRUE}",
                metadata_only=True,
                decode=Partial,
            )
            names = sorted(each.metadata.labels.get(labels.REMOTE_CLUSTER_ID, "") for each in known)
            others = f"peers are {', '.join(names)}" if names else "there are no peers"
            raise ConfigError(f"there is nothing of {peer} to revoke here; {others}")
        return tuple(roles)


async def carry_out(
    client: Client, peer: str, roles: tuple[str, ...], progress: common.Progress
) -> Revoked:
    """Mark, take, and look until nothing comes back.

    Raises:
        ConfigError: the peer is gone.
    """
    namespace = await find_tenant_namespace(client, peer)
    if namespace is None:
        raise ConfigError(f"{peer} has just gone")
    progress(f"revoke {peer}")
    lives: list[Living] = []
    # The daemon begins with the mark, so what it takes is looked for before.
    removed: dict[str, None] = {}
    if "consumer" in roles:
        removed |= dict.fromkeys(await revocation.held_of(client, peer, namespace))
        issued = await revocation.certificates_of(client, namespace)
        noted = await revocation.mark(client, namespace, labels.REVOKED_TENANT, issued)
        lives += noted.lives
    if "provider" in roles:
        held = await forsaking.held(client, peer, namespace)
        given = tuple(Living(what, until) for what, until in held)
        noted = await revocation.mark(client, namespace, labels.REVOKED_PROVIDER, given)
        lives += noted.lives
    quiet = False
    while True:
        now = await revocation.take(client, peer, namespace) if "consumer" in roles else []
        now += await forsaking.take(client, namespace) if "provider" in roles else []
        removed |= dict.fromkeys(now)
        if not now and quiet:
            return Revoked(peer, roles, tuple(removed), tuple(lives))
        quiet = not now
        progress("look whether anything comes back")
        await trio.sleep(QUIET)
