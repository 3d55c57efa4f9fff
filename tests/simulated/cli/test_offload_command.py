"""What `liqod offload namespace` says of the names by which pods at peers find Services."""

import json
from pathlib import Path

import pytest
import trio

from liqod.apimachinery.kinds import NAMESPACES
from tests.simulated.meeting import lead, run
from tests.simulated.members import members

SAYS = "pods there find its Services by short names"
SAME = ("--namespace-mapping-strategy", "EnforceSameName")


@pytest.mark.long
async def test_a_namespace_of_another_name_there_is_said_with_the_remedy(
    tmp_path: Path, nursery: trio.Nursery
) -> None:
    async with members("rome", "milan") as [rome, milan]:
        await nursery.start(lead, rome)
        for name in ("shop", "same", "away"):
            await rome.admin.create(NAMESPACES, {"metadata": {"name": name}})
        offload = ("offload", "namespace")

        early = await run(rome, tmp_path, *offload, "shop")
        assert "recorded, but no virtual node matches" in early.err
        assert SAYS not in early.err

        await rome.peer(milan)
        told = await run(rome, tmp_path, *offload, "shop")
        assert (told.status, told.out) == (0, "shop → milan: shop-rome\n"), told.err
        assert (
            f"{SAYS} (web) and as web.shop-rome.svc, not as web.shop.svc; "
            "--namespace-mapping-strategy EnforceSameName gives the namespace one name everywhere"
        ) in told.err

        same = await run(rome, tmp_path, *offload, "same", *SAME)
        assert (same.status, same.out) == (0, "same → milan: same\n"), same.err
        assert SAYS not in same.err

        away = ("--namespace-mapping-strategy", "SelectedName", "--remote-namespace-name", "shelf")
        named = await run(rome, tmp_path, *offload, "away", *away)
        assert f"{SAYS} (web) and as web.shelf.svc, not as web.away.svc" in named.err

        # With -o nothing is applied: no peer has given it a name.
        for more in ((), SAME):
            printed = await run(rome, tmp_path, *offload, "shop", *more, "-o", "json")
            assert json.loads(printed.out)["kind"] == "NamespaceOffloading"
            assert (printed.status, printed.err) == (0, "")
