"""The properties of a cluster of a set: written on request, others' left, and taken back."""

import json

import msgspec
import pytest

from liqod import install
from liqod.apimachinery.kinds import CUSTOM_RESOURCES
from liqod.cli.snapshotreader import take
from liqod.errors import ConfigError
from liqod.install import clusterproperties, installerrights
from liqod.install.manifests import properties
from liqod.install.refusals import InstallRefused
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import from_kubeconfig
from liqod.kube.reviews import AuthenticatedUser, may
from liqod.model.view.setfacts import Property, SetFacts
from liqod.plugins.checks.clusterset import clusterset
from liqod.plugins.diagnosis import ClusterFacts
from liqod.resources.about import CLUSTER, CLUSTER_PROPERTIES, CLUSTER_SET, DEFINITION
from liqod.resources.crdmanifests import make_crd
from tests.simulated.install.test_install import everything, quiet
from tests.simulated.processes import command
from tests.simulated.remedies import taken

pytestmark = [pytest.mark.long, pytest.mark.clusterset]

WITH = install.Options(cluster_id="milan", clusterset="europe")
NAME = clusterproperties.DEFINITION
OTHERS = "fleet.example.com"


async def values(admin):
    return {
        each["metadata"]["name"]: each["spec"]["value"]
        for each in await admin.list(CLUSTER_PROPERTIES)
    }


async def define(admin, **version):
    """Another program's definition of the kind."""
    made = make_crd(DEFINITION)
    made["metadata"] = {"name": NAME, "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    made["spec"]["versions"] = [{**made["spec"]["versions"][0], **version}]
    await admin.create(CUSTOM_RESOURCES, made)


async def write(admin, name, value):
    body = {"metadata": {"name": name}, "spec": {"value": value}}
    await admin.create(CLUSTER_PROPERTIES, body)


async def test_they_are_written_on_request_kept_changed_and_taken_back(admin):
    await install.install(admin, install.Options(cluster_id="milan"), quiet)
    assert await admin.find(CUSTOM_RESOURCES, NAME) is None
    assert (await take(admin, "liqo")).clusterset is None
    before = await everything(admin)
    await install.install(admin, WITH, quiet)
    assert await values(admin) == {CLUSTER: "milan", CLUSTER_SET: "europe"}
    seen = SetFacts("milan", Property("milan", ours=True), Property("europe", ours=True))
    assert (await take(admin, "liqo")).clusterset == seen
    assert await everything(admin) - before == {
        ("CustomResourceDefinition", "", NAME),
        ("ClusterProperty", "", CLUSTER),
        ("ClusterProperty", "", CLUSTER_SET),
    }
    await install.install(admin, install.Options(), quiet)
    assert await values(admin) == {CLUSTER: "milan", CLUSTER_SET: "europe"}
    await install.install(admin, install.Options(clusterset="africa"), quiet)
    assert await values(admin) == {CLUSTER: "milan", CLUSTER_SET: "africa"}
    await install.uninstall(admin, "liqo", purge=False, progress=quiet)
    assert await values(admin) == {}
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert await admin.find(CUSTOM_RESOURCES, NAME) is None


@pytest.mark.parametrize(
    ("name", "there"), [(CLUSTER, "rome"), (CLUSTER_SET, "asia")], ids=["cluster", "set"]
)
async def test_another_programs_value_is_refused_before_anything_is_changed(admin, name, there):
    await define(admin)
    await write(admin, name, there)
    before = await everything(admin)
    with pytest.raises(InstallRefused) as raised:
        await install.install(admin, WITH, quiet)
    (reason,) = raised.value.refusals
    assert reason.reason == "property"
    assert f"{name} is another program's, and says '{there}'" in reason.problem
    assert await everything(admin) == before
    assert await values(admin) == {name: there}


@pytest.mark.parametrize("live", [{}, {"spec": None}, {"spec": {}}], ids=["bare", "null", "empty"])
def test_another_programs_without_a_value_stays(live):
    wanted, _ = properties("milan", "europe")
    live = {"metadata": {"name": CLUSTER}, **live}
    assert clusterproperties.conflict(wanted, live).endswith("and says ''")


async def test_another_programs_of_the_same_value_and_its_definition_stay_its_own(admin):
    await define(admin)
    await write(admin, CLUSTER, "milan")
    await write(admin, OTHERS, "a")
    before = await admin.list(CLUSTER_PROPERTIES), await admin.get(CUSTOM_RESOURCES, NAME)
    await install.install(admin, WITH, quiet)
    assert await values(admin) == {CLUSTER: "milan", OTHERS: "a", CLUSTER_SET: "europe"}
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    after = await admin.list(CLUSTER_PROPERTIES), await admin.get(CUSTOM_RESOURCES, NAME)
    assert after == before


async def test_liqods_own_definition_stays_for_the_properties_of_others(admin):
    await install.install(admin, WITH, quiet)
    await write(admin, OTHERS, "a")
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert await values(admin) == {OTHERS: "a"}
    await install.install(admin, WITH, quiet)  # and it is another program's from now on
    await install.uninstall(admin, "liqo", purge=True, progress=quiet)
    assert await values(admin) == {OTHERS: "a"}


async def test_one_that_is_written_in_between_stays(admin, monkeypatch):
    async def nothing(*_):
        return ""

    monkeypatch.setattr(clusterproperties, "problem", nothing)
    await define(admin)
    await write(admin, CLUSTER_SET, "asia")
    with pytest.raises(ConfigError, match="says 'asia': it stays"):
        await install.install(admin, WITH, quiet)
    assert await values(admin) == {CLUSTER: "milan", CLUSTER_SET: "asia"}


async def test_a_definition_without_the_version_is_refused(admin):
    await define(admin, name="v2")
    with pytest.raises(InstallRefused, match="does not serve v1alpha1"):
        await install.install(admin, WITH, quiet)


async def test_the_user_who_installs_needs_the_right_and_the_daemon_gets_none(admin):
    plain = msgspec.structs.replace(WITH, clusterset="")
    needed, without = (
        installerrights.needed(install.manifests(each, []), each) for each in (WITH, plain)
    )
    assert {(each.verb, each.qualified) for each in needed - without} == {
        (verb, NAME) for verb in ("get", "create", "patch")
    }
    await install.install(admin, WITH, quiet)
    daemon = AuthenticatedUser("system:serviceaccount:liqo:liqod", ("system:authenticated",))
    asked = {"group": "about.k8s.io", "resource": "clusterproperties"}
    for verb in ("get", "list", "create", "patch", "update", "delete"):
        assert not await may(admin, daemon, verb=verb, **asked)


async def test_the_command_takes_it_and_refuses_what_is_no_name(cluster, tmp_path):
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig)
    where = ("--kubeconfig", str(kubeconfig))
    asked = ("install", *where, "--cluster-id", "milan", "--any-clock", "--clusterset")
    refused = await command(*asked, "No Name")
    assert refused.status == 2
    assert "'No Name' is no DNS subdomain" in refused.err
    printed = await command(*asked, "europe", "--dry-run", "-o", "json")
    names = [each["metadata"]["name"] for each in json.loads(printed.out)["items"]]
    assert NAME in names
    assert CLUSTER not in names
    done = await command(*asked, "europe")
    assert done.status == 0, done.err
    async with Client(from_kubeconfig(cluster.kubeconfig)) as admin:
        assert await values(admin) == {CLUSTER: "milan", CLUSTER_SET: "europe"}
        await admin.patch(CLUSTER_PROPERTIES, CLUSTER, {"spec": {"value": "rome"}})
        found = await command("doctor", *where)
        assert "says 'rome', and this cluster is milan" in found.out
        seen = (await take(admin, "liqo")).clusterset
        finding = clusterset(ClusterFacts(clusterset=seen))
        assert finding is not None
        again = taken(finding.remedy, "install --clusterset NAME", NAME="europe")
        done = await command(*again, *where, "--any-clock")
        assert done.status == 0, done.err
        assert await values(admin) == {CLUSTER: "milan", CLUSTER_SET: "europe"}
