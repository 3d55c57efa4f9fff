"""The namespace of ``liqod node``'s pods: how it comes, by an upgrade too, and goes."""

import msgspec
import pytest

from liqod import install
from liqod.apimachinery.kinds import (
    ADMISSION_POLICIES,
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    DAEMON_SETS,
    NAMESPACES,
    PODS,
)
from liqod.errors import ConfigError
from liqod.install.manifests import Manifest
from liqod.kube.client import Client
from tests.simulated.install.test_install import OPTIONS, everything, quiet

POD: Manifest = {
    "selector": {"matchLabels": {"app": "x"}},
    "template": {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "node", "image": "x"}]},
    },
}
PLACE = "liqo-nodes"


async def former(admin: Client, text: str) -> None:
    """`liqod node` and its configuration as an older version has them, in liqod's namespace."""
    named = {"name": "liqod-node", "labels": install.MANAGED}
    await admin.create(DAEMON_SETS, {"metadata": named, "spec": POD}, "liqo")
    await admin.create(CONFIG_MAPS, {"metadata": named, "data": {"liqod.toml": text}}, "liqo")


async def of_nodes(admin: Client) -> list[str]:
    """The namespaces that have pods of `liqod node`."""
    found = await admin.list(DAEMON_SETS)
    return [one["metadata"]["namespace"] for one in found]


@pytest.mark.long
async def test_an_upgrade_moves_liqod_node_to_its_namespace_with_its_configuration(admin):
    await install.install(admin, OPTIONS, quiet)
    text = '[network]\nadvertise = "192.0.2.7"\n'
    await former(admin, text)
    options = install.Options(cluster_id="milan", in_cluster=True)
    for _ in range(2):
        await install.install(admin, options, quiet)
        assert await of_nodes(admin) == [PLACE]
        assert await admin.find(CONFIG_MAPS, "liqod-node", "liqo") is None
        assert (await admin.get(CONFIG_MAPS, "liqod-node", PLACE))["data"] == {"liqod.toml": text}

    # One from outside leaves its pods, with their rights and the policy of the daemon's.
    await install.install(admin, OPTIONS, quiet)
    assert await of_nodes(admin) == [PLACE]
    bound = await admin.get(CLUSTER_ROLE_BINDINGS, "liqod-node")
    assert [each["namespace"] for each in bound["subjects"]] == ["liqo", PLACE]
    assert await admin.find(ADMISSION_POLICIES, "liqod-restricted-pods") is not None

    # Where no networks are joined any more, there is nothing of theirs.
    await install.install(admin, msgspec.structs.replace(options, network=False), quiet)
    assert await of_nodes(admin) == []
    assert await admin.find(NAMESPACES, PLACE) is None
    assert await admin.find(ADMISSION_POLICIES, "liqod-restricted-pods") is None
    marks = (await admin.get(NAMESPACES, "liqo"))["metadata"]["labels"]
    assert marks["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.install
@pytest.mark.long
async def test_pods_of_the_former_namespace_end_before_the_next_begin(admin, autojump_clock):
    """Two on one node would want one socket."""
    await install.install(admin, OPTIONS, quiet)
    await former(admin, "")
    labelled = {"name": "old", "labels": {"app.kubernetes.io/name": "liqod-node"}}
    await admin.create(PODS, {"metadata": labelled, "spec": POD["template"]["spec"]}, "liqo")
    options = install.Options(cluster_id="milan", in_cluster=True)
    with pytest.raises(ConfigError, match="pods of liqod node in the namespace liqo do not end"):
        await install.install(admin, options, quiet)
    assert await of_nodes(admin) == []
    await admin.delete(PODS, "old", "liqo")
    await install.install(admin, options, quiet)
    assert await of_nodes(admin) == [PLACE]


@pytest.mark.install
@pytest.mark.long
async def test_a_daemon_set_of_somebody_else_is_left(admin):
    theirs = {"metadata": {"name": "liqod-node", "labels": {"mine": "true"}}, "spec": POD}
    await install.install(admin, OPTIONS, quiet)
    await admin.create(DAEMON_SETS, theirs, "liqo")
    await install.install(admin, install.Options(cluster_id="milan", in_cluster=True), quiet)
    assert sorted(await of_nodes(admin)) == ["liqo", PLACE]


@pytest.mark.install
@pytest.mark.long
async def test_a_namespace_of_liqod_node_that_has_others_pods_is_refused(admin):
    await admin.create(NAMESPACES, {"metadata": {"name": PLACE}})
    await admin.create(DAEMON_SETS, {"metadata": {"name": "theirs"}, "spec": POD}, PLACE)
    with pytest.raises(ConfigError, match="liqo-nodes has something else in it"):
        await install.install(admin, install.Options(cluster_id="milan", in_cluster=True), quiet)
    assert await admin.find(NAMESPACES, "liqo") is None


@pytest.mark.install
@pytest.mark.long
async def test_the_namespace_of_liqod_node_goes_with_the_installation(admin):
    before = await everything(admin)
    await install.install(admin, install.Options(cluster_id="milan", in_cluster=True), quiet)
    assert await admin.find(NAMESPACES, PLACE) is not None
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert await everything(admin) == before
