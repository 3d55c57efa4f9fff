"""The commands of how-to/migration, typed as they stand where Liqo was."""

from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from liqod import install
from liqod.apimachinery import labels
from liqod.apimachinery.kinds import DEPLOYMENTS, LEASES, MUTATING_WEBHOOKS, SECRETS
from liqod.identity import keys
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from simulator import EmbeddedCluster
from tests.simulated.borrower import eventually
from tests.simulated.install.test_migration import GOES, STAYS, have_liqo, names, present
from tests.simulated.prepared import quiet
from tests.testbed import shownblocks, virtualtime
from tests.testbed.pages import Terminal
from tests.testbed.shownblocks import Shown

pytestmark = [pytest.mark.long, pytest.mark.install]


@asynccontextmanager
async def typing(folder: Path, cluster: EmbeddedCluster) -> AsyncIterator[Terminal]:
    """A terminal whose kubeconfig is that of the cluster's administrator."""
    (folder / "rome.kubeconfig").write_text(cluster.kubeconfig)
    made = Terminal(folder, folder)
    made.type("export KUBECONFIG=$PWD/rome.kubeconfig")
    try:
        yield made
    finally:
        await trio.to_thread.run_sync(made.close)


async def follow(terminal: Terminal, *shown: Shown, statuses: tuple[int, ...] = (0,)) -> str:
    """Types commands; what the last one printed."""
    said = ""
    for each in map(shownblocks.answered, shown):
        kind = partial(terminal.type, each.line, "", statuses)
        said = await trio.to_thread.run_sync(kind)
    return said


async def have_key(admin: Client) -> None:
    """A key in the place of the recorded one, which is not one of a cluster's."""
    own = keys.generate()
    fields = {labels.PRIVATE_KEY_FIELD: own, labels.PUBLIC_KEY_FIELD: keys.public_pem(own)}
    data = {name: b64encode(each).decode() for name, each in fields.items()}
    await admin.patch(SECRETS, labels.KEYS_SECRET, {"data": data}, "liqo")


async def works(terminal: Terminal, admin: Client) -> bool:
    """True if a daemon leads; fails the test where it has ended."""
    terminal.daemons[0].check()
    found = await admin.find(LEASES, "liqod", "liqo")
    return bool(found and found["spec"].get("holderIdentity"))


async def test_a_cluster_goes_over_to_liqod_and_back_as_its_page_says(tmp_path: Path):
    dry_run, takes_out, installs, runs, *looks = shownblocks.commands(
        "how-to/migration", "To liqod"
    )
    [back] = shownblocks.commands("how-to/migration", "Back to Liqo")
    with virtualtime.real():
        async with (
            EmbeddedCluster("rome") as cluster,
            Client(from_kubeconfig(cluster.kubeconfig)) as admin,
            typing(tmp_path, cluster) as terminal,
        ):
            await install.install(admin, install.Options(cluster_id="rome"), quiet)
            before = await have_liqo(admin)
            await have_key(admin)
            said = await follow(terminal, dry_run)
            assert "goes: Deployment liqo-tenant-milan/vk-milan" in said
            assert "stays: virtual nodes milan, with 2 pods on them" in said
            assert await present(admin) == before

            said = await follow(terminal, takes_out)
            for each in (installs.line, runs.line):
                assert each in said
            assert before - await present(admin) == names(*GOES[1:])
            assert await admin.list(MUTATING_WEBHOOKS) == []

            await follow(terminal, installs)
            terminal.run_daemon(runs.line)
            await eventually(partial(works, terminal, admin), seconds=60)
            # The peer of this test is not there, which is what both name.
            for look in looks:
                assert "milan" in await follow(terminal, look, statuses=(1,))

            await trio.to_thread.run_sync(terminal.stop_daemons)
            said = await follow(terminal, back)
            assert "next: liqoctl install --cluster-id rome" in said
            left = await present(admin)
            assert names(*STAYS) <= left
            assert not {name for _, _, name in left if name.startswith("liqod")}
            assert await admin.list(DEPLOYMENTS) == []
