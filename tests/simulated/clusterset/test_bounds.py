"""The bounds of what is shared with one peer."""

import pytest

from liqod.clusterset import exchanges
from liqod.resources.exchanges import SERVICE_EXCHANGES
from tests.simulated.borrower import eventually
from tests.simulated.clusterset.sets import (
    backends,
    conditions,
    export,
    share,
    sharing,
    until_backends,
)

pytestmark = pytest.mark.long


async def test_an_export_of_a_namespace_too_many_says_so_and_is_told_once_there_is_room(
    monkeypatch,
):
    monkeypatch.setattr(exchanges, "MOST_NAMESPACES", 1)
    async with sharing("rome", "milan") as [rome, milan]:
        await rome.peer(milan)
        await share(rome, "milan", "first")
        await eventually(lambda: rome.admin.list(SERVICE_EXCHANGES))
        for who, peer in ((rome, "milan"), (milan, "rome")):
            await share(who, peer)
        await export(rome, "10.71.0.1")

        async def ready(*wanted):
            return (await conditions(rome)).get("Ready") == wanted

        await eventually(lambda: ready("False", "Failed"))
        assert await backends(milan) == {}
        await share(rome, "turin", "first")
        await until_backends(milan, {"rome": {"10.71.0.1": True}})
        await eventually(lambda: ready("True", "Exported"))
