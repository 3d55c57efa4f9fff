"""Completions for the shell: peers, namespaces and slices of the kubeconfig's cluster.

A person who presses Tab waits for it: it has a second, and where anything is wrong it offers
nothing and says nothing.
"""

import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import typer

WITHIN = 1.0
"""Seconds."""
MOST = 500


def peers(ctx: typer.Context, incomplete: str) -> list[str]:
    """The peers' cluster ids that begin so."""
    return _names(ctx, incomplete, "FOREIGN_CLUSTERS")


def tenants(ctx: typer.Context, incomplete: str) -> list[str]:
    """The consumers' cluster ids that begin so."""
    return _names(ctx, incomplete, "TENANTS")


def slices(ctx: typer.Context, incomplete: str) -> list[str]:
    """The resource slices that begin so."""
    return _names(ctx, incomplete, "RESOURCE_SLICES")


def offloaded(ctx: typer.Context, incomplete: str) -> list[str]:
    """The offloaded namespaces that begin so."""
    return _names(ctx, incomplete, "NAMESPACE_OFFLOADINGS", "namespace")


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """The namespaces that begin so and may leave this cluster."""
    from liqod.apimachinery import labels
    from liqod.model.crossing import exclusions

    found = _names(ctx, incomplete, "")
    own = labels.LIQO_NAMESPACE
    return [name for name in found if not exclusions.namespace_stays(name, {}, own)]


def _names(ctx: typer.Context, incomplete: str, kind: str, field: str = "name") -> list[str]:
    try:
        logging.disable(logging.CRITICAL)
        found = _within(lambda: _listed(ctx, kind, field))
    except BaseException:  # a shell shows it in the middle of the line that is being typed
        return []
    return sorted({each for each in found if each.startswith(incomplete)})[:MOST]


def _within(look: Callable[[], Awaitable[list[str]]]) -> list[str]:
    import trio

    async def main() -> list[str]:
        with trio.move_on_after(WITHIN):
            return await look()
        return []

    return trio.run(main)


async def _listed(ctx: typer.Context, kind: str, field: str) -> list[str]:
    from liqod import resources
    from liqod.apimachinery.kinds import NAMESPACES
    from liqod.apimachinery.meta import Partial
    from liqod.cli.clusters import connect

    given = ctx.params.get("kubeconfig")
    async with await connect(
        Path(given) if given else None, str(ctx.params.get("context") or "")
    ) as client:
        wanted: Any = getattr(resources, kind) if kind else NAMESPACES
        found = await client.list(wanted, decode=Partial)
        return [str(getattr(each.metadata, field)) for each in found]
