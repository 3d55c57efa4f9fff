"""Direct pods of a namespace that goes: nobody makes them again, so nothing may hold them.

While its consumer is lent to, the room of that peer lets go of them one by one
(:mod:`liqod.provider.workloads.directpods`); this is for when it is not, or where no daemon runs.
"""

from liqod.errors import Conflict
from liqod.kube.client import Client
from liqod.kube.ending import set_finalizers
from liqod.kube.kinds import PODS
from liqod.kube.meta import Partial
from liqod.kube.selection import Selection
from liqod.model import labels


async def free_pods(client: Client, namespace: str) -> bool:
    """Take our finalizer off the direct pods of a namespace; whether all are free now.

    Raises:
        LiqodError: as the client raises.
    """
    marked = Selection(namespace, labels=f"{labels.MANAGED_BY}={labels.MANAGED_BY_CONSUMER}")
    every = True
    for each in await client.list(PODS, marked, decode=Partial):
        try:
            held = (labels.FINALIZER_DIRECT_POD,)
            await set_finalizers(client, PODS, each.metadata, remove=held)
        except Conflict:
            every = False  # it changed meanwhile
    return every
