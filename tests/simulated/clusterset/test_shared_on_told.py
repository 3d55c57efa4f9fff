"""The words of the commands about exports that are shared on, at both leaves of a star."""

from pathlib import Path

import pytest

from liqod.model.clusterset import byway
from liqod.plugins.checks import services as layers
from tests.simulated.borrower import eventually
from tests.simulated.clusterset.sets import IMPORTS, until_backends
from tests.simulated.clusterset.test_diagnosis import until, verdicts
from tests.simulated.clusterset.test_shared_on import ONE, agree, key, star, until_ready
from tests.simulated.meeting import run
from tests.simulated.members import Member

pytestmark = [pytest.mark.long, pytest.mark.clusterset]

WELL = ("unknown", "it was well when the daemon last ran")
"""Nothing is wrong, and no member holds the daemon's Lease."""
EXPLAIN = ("explain", "serviceimport", "web", "-n", "shop")


async def explained(who: Member, folder: Path, line: str) -> None:
    """Wait until the explanation of the import has a line with these words."""

    async def look() -> bool:
        return line in (await run(who, folder, *EXPLAIN)).out

    await eventually(look)


async def test_both_leaves_name_the_hub_and_the_key_that_is_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(layers, "SETTLES", 0.0)
    async with star("rome") as [rome, milan, turin]:
        await until_backends(turin, ONE)
        for who in (rome, milan, turin):
            await until(who, "services", *WELL)
        await explained(turin, tmp_path, "  milan: 1 of 1 endpoint ready; by way of rome\n")
        own, hub, other = (await run(milan, tmp_path, *EXPLAIN)).out.splitlines()[1:4]
        assert own == "  milan: 1 of 1 endpoint ready"
        assert (hub.startswith("  rome: "), other) == (
            True,
            "  turin: by way of rome, which tells no export of it",
        )

        # Rome has no room for it any more, and has it again.
        with monkeypatch.context() as patch:
            patch.setattr(byway, "MOST_EXPORTS", 0)
            assert rome.sharing is not None
            rome.sharing.notify()
            await turin.gone(IMPORTS, "web", "shop")
            full = "the one between has no room for it beside its own exports"
            await until_ready(milan, f"known to rome alone; not to turin by way of rome: {full}")
            await until(
                milan, "services", "failing", "shop/web is not known to turin by way of rome"
            )
        rome.sharing.notify()
        await until_backends(turin, ONE)
        await until(milan, "services", *WELL)

        # Turin names another key than milan's.
        wrong = f"rome/milan={await key(rome)}"
        await agree(turin, wrong)
        await until(turin, "services", "failing", "shop/web of milan by way of rome is left out: ")
        await explained(turin, tmp_path, "  milan: by way of rome; its export is left out")
        await until(milan, "services", "failing", "shop/web is not known to turin by way of rome")
        await explained(milan, tmp_path, "; it has not taken this cluster's export, whose Ready")
        assert (await verdicts(rome))["services"] == WELL

        # Turin says nothing, and so it asks for nothing; milan still does.
        await agree(turin, None)
        await until(turin, "services", *WELL)
        await agree(milan, "rome/turin")
        await until(milan, "services", "failing", "shop: 'rome/turin': it is not as")
        await agree(milan, None)
        await until(milan, "services", *WELL)
