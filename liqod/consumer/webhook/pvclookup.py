"""Looks up the claims that a new pod names, before it is placed.

Claims of the whole cluster are not followed for that: pods with claims are few, and seldom made.
"""

from typing import Any, Final

import msgspec
import trio

from liqod.apimachinery.kinds import CLAIMS
from liqod.cluster.context import ClusterContext
from liqod.errors import LiqodError
from liqod.model.objects import volumeclaims
from liqod.model.objects.eligibility import Placement

ASKED: Final = 8
"""Claims of one pod that are looked up; further ones count as missing."""
DEADLINE: Final = 2.0
"""Seconds for all of them: the API server waits for admission."""


async def claims_of(
    context: ClusterContext, pod: dict[str, Any], namespace: str, placement: Placement
) -> Placement:
    """The placement with the claims of a pod; one that cannot be read counts as missing."""
    settings = context.config.storage
    if not settings.enabled:
        return placement
    found: dict[str, volumeclaims.ClaimView] = {}
    with trio.move_on_after(DEADLINE):
        for name in volumeclaims.names(pod)[:ASKED]:
            try:
                claim = await context.client.find(CLAIMS, name, namespace)
            except LiqodError:
                break
            if claim is not None:
                found[name] = volumeclaims.sight(claim)
    return msgspec.structs.replace(placement, storage_class=settings.class_name, claims=found)
