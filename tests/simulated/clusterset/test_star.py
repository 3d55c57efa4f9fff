"""Services of the set in a star: rome peers with two clusters that do not peer with each other."""

import pytest
import trio

from liqod.resources.exchanges import SERVICE_EXCHANGES
from tests.simulated.clusterset.sets import (
    EXPORTS,
    IMPORTS,
    backends,
    conditions,
    export,
    imported,
    share,
    sharing,
    until_backends,
)

pytestmark = [pytest.mark.long, pytest.mark.clusterset]


async def test_leaves_see_nothing_of_each_other_by_way_of_the_hub():
    async with sharing("rome", "milan", "turin") as [rome, milan, turin]:
        for leaf in (milan, turin):
            await rome.peer(leaf)
            await share(leaf, "*")
        await share(rome, "*")
        await export(milan, "10.72.0.1")
        await imported(rome, "milan")
        await until_backends(rome, {"milan": {"10.72.0.1": True}})
        await trio.sleep(5)
        assert await turin.admin.list(IMPORTS) == []
        (told,) = await turin.admin.list(SERVICE_EXCHANGES)
        assert told["spec"]["exports"] == {}
        assert (await conditions(milan))["Ready"] == ("True", "Exported")

        await trio.sleep(1.1)
        await export(turin, "10.72.0.2", sessionAffinity="ClientIP")
        await imported(rome, "milan", "turin")
        await until_backends(rome, {"milan": {"10.72.0.1": True}, "turin": {"10.72.0.2": True}})
        await trio.sleep(5)
        for leaf, address in ((milan, "10.72.0.1"), (turin, "10.72.0.2")):
            await imported(leaf, leaf.id)
            assert await backends(leaf) == {leaf.id: {address: True}}
            # Of a conflict that only the hub sees nothing is said here.
            assert (await conditions(leaf))["Conflict"] == ("False", "NoConflicts")

        await milan.admin.delete(EXPORTS, "web", "shop")
        await milan.gone(IMPORTS, "web", "shop")
        await imported(rome, "turin")
        await until_backends(turin, {"turin": {"10.72.0.2": True}})
