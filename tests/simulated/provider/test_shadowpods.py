"""Pods made from ShadowPods, in an embedded cluster: the tests are the kubelet."""

import pytest
import trio

from liqod.apimachinery.kinds import NAMESPACES, PODS
from liqod.kube.selection import Selection
from liqod.provider.timings import ORDINARY
from liqod.resources import SHADOW_PODS
from simulator import EmbeddedCluster, Fault
from tests.simulated.borrower import eventually
from tests.simulated.lender import SHOP
from tests.simulated.prepared import installed
from tests.simulated.provider.shadowed import SOON, at_work, lending


@pytest.fixture
async def cluster():
    async with EmbeddedCluster("milan", state=await installed("milan")) as embedded:
        yield embedded


async def gone(made, name):
    async def look():
        return await made.pod(name) is None

    await eventually(look)


async def test_a_pod_costs_one_write_and_no_read(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        await made.ask_for("web-1")
        await made.made("web-1")
        await made.set_phase("web-1", "Pending")
        await made.set_phase("web-1", "Running")
        await made.settled()
        assert made.requests() == {("create", "pods"): 1}


async def test_a_pod_of_a_liqo_costs_two_writes_and_no_read(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        await made.ask_for("web-1", annotations={"note": "a"})
        pod = await made.made("web-1")
        await made.set_phase("web-1", "Pending")
        await made.set_phase("web-1", "Running")
        await made.told("web-1", "phase", "Running")
        await made.settled()
        assert made.requests() == {("create", "pods"): 1, ("patch", "shadowpods/status"): 1}
        shadow = await made.shadow("web-1")
        [owner] = pod["metadata"]["ownerReferences"]
        assert owner["uid"] == shadow["metadata"]["uid"]
        assert pod["metadata"]["labels"]["liqo.io/managed-by"] == "shadowpod"
        assert pod["metadata"]["labels"]["app"] == "web"
        assert pod["metadata"]["annotations"]["note"] == "a"
        assert "affinity" in pod["spec"]
        assert "liqo.io/managed-by" not in shadow["metadata"]["labels"]
        assert set(shadow["metadata"].get("annotations", {})) == {"note"}


async def test_a_pod_that_is_deleted_is_made_again_until_it_has_ended(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        await made.ask_for("web-1")
        first = (await made.made("web-1"))["metadata"]["uid"]
        await made.set_phase("web-1", "Running")
        await made.admin.delete(PODS, "web-1", SHOP, grace=0)
        await made.made("web-1", other_than=first)
        await made.set_phase("web-1", "Succeeded")
        await made.told("web-1", "phase", "Succeeded")
        await made.admin.delete(PODS, "web-1", SHOP, grace=0)
        await made.settled()
        assert await made.pod("web-1") is None


async def test_a_pod_is_not_made_again_for_a_shadow_pod_that_went_unseen(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        await made.ask_for("web-1")
        first = (await made.made("web-1"))["metadata"]["uid"]
        await made.set_phase("web-1", "Running")
        await made.settled()
        # The watch of ShadowPods breaks, as it does where their definition is upgraded.
        with cluster.faults.during(Fault(path="/shadowpods$", status=429)) as blind:
            cluster.faults.cut_watches()

            async def hit():
                return blind.hits > 0

            await eventually(hit)
            await made.admin.delete(SHADOW_PODS, "web-1", SHOP)
            await made.admin.delete(PODS, "web-1", SHOP, grace=0)
            await trio.sleep(0.5)
            assert await made.pod("web-1") is None
        await made.settled()
        assert await made.pod("web-1") is None
        # The next of that name is another's, and is made.
        await made.ask_for("web-1")
        await made.made("web-1", other_than=first)


async def test_a_pod_that_came_and_went_unseen_is_made_again(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        with cluster.faults.during(Fault(verb="watch", path="/pods$", status=429)) as blind:
            cluster.faults.cut_watches()

            async def hit():
                return blind.hits > 0

            await eventually(hit)
            await made.ask_for("web-1")
            first = (await made.made("web-1"))["metadata"]["uid"]
            await made.admin.delete(PODS, "web-1", SHOP, grace=0)
            assert await made.pod("web-1") is None
        # The watch goes on after both changes, which no list shows either.
        with cluster.faults.during(Fault(verb="watch", path="/pods$", expire=True, times=2)):
            await trio.sleep(ORDINARY.expectation + 5)
        assert (await made.made("web-1"))["metadata"]["uid"] != first


async def test_an_end_is_final_for_the_next_daemon_too(cluster):
    async with lending(cluster) as made:
        await made.grant()
        async with at_work(made, SOON):
            await made.ask_for("job-1")
            await made.made("job-1")
            await made.set_phase("job-1", "Failed")
            await made.told("job-1", "phase", "Failed")
        await made.admin.delete(PODS, "job-1", SHOP, grace=0)
        async with at_work(made, SOON):
            await made.ask_for("job-2")
            await made.made("job-2")
            await made.settled()
            assert await made.pod("job-1") is None


async def test_a_pod_that_ended_while_the_daemon_was_away_is_told(cluster):
    async with lending(cluster) as made:
        await made.grant()
        async with at_work(made, SOON):
            await made.ask_for("job-1")
            await made.made("job-1")
        await made.set_phase("job-1", "Succeeded")
        async with at_work(made, SOON):
            await made.told("job-1", "phase", "Succeeded")


async def test_a_pod_that_runs_once_and_went_unseen_is_not_run_again(cluster):
    async with lending(cluster) as made:
        await made.grant()
        async with at_work(made, SOON):
            for name, policy in (("job-1", "Never"), ("web-1", "Always")):
                await made.ask_for(name, pod={"restartPolicy": policy})
                await made.made(name)
                await made.set_phase(name, "Running")
                await made.settled()
        for name in ("job-1", "web-1"):
            await made.admin.delete(PODS, name, SHOP, grace=0)
        async with at_work(made, SOON):
            status = await made.told("job-1", "reason", "PodLost")
            assert status["phase"] == "Failed"
            await made.made("web-1")
            assert await made.pod("job-1") is None


async def test_labels_follow_and_come_back(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        await made.ask_for("web-1", labels={"tier": "front"})
        await made.made("web-1")

        async def labelled(**wanted):
            async def look():
                pod = await made.pod("web-1")
                found = pod["metadata"]["labels"]
                return all(found.get(key) == value for key, value in wanted.items())

            await eventually(look)

        patch = {"metadata": {"labels": {"tier": None, "app": "shop"}}}
        await made.admin.patch(SHADOW_PODS, "web-1", patch, SHOP)
        await labelled(tier=None, app="shop")
        stray = {"metadata": {"labels": {"app": "stolen", "mesh": "yes"}}}
        await made.admin.patch(PODS, "web-1", stray, SHOP)
        await labelled(app="shop", mesh="yes")


async def test_a_pod_of_that_name_that_is_not_ours_is_left_alone(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        theirs = {
            "metadata": {"name": "web-1"},
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        }
        await made.admin.create(PODS, theirs, SHOP)
        before = await made.pod("web-1")
        await made.ask_for("web-1")
        status = await made.told("web-1", "reason", "NameTaken")
        assert status["phase"] == "Pending"
        # The scheduler may have had its say meanwhile, which is no business of the lender's.
        after = await made.pod("web-1")
        for part in ("uid", "labels", "annotations", "ownerReferences", "finalizers"):
            assert after["metadata"].get(part) == before["metadata"].get(part)
        assert after["spec"].get("containers") == before["spec"].get("containers")
        assert "deletionTimestamp" not in after["metadata"]
        await made.admin.delete(PODS, "web-1", SHOP, grace=0)
        pod = await made.made("web-1", other_than=before["metadata"]["uid"])
        assert pod["metadata"]["ownerReferences"]
        assert "phase" in await made.told("web-1", "reason", "")


async def test_another_origin_is_refused(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        await made.ask_for("web-1", labels={"offloading.liqo.io/origin": "turin"})
        await made.told("web-1", "reason", "WrongOrigin")
        assert await made.pod("web-1") is None


async def test_what_the_api_server_refuses_is_told_and_tried_again(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant(cpu="1")
        bad = {"containers": [{"name": "web"}]}
        await made.ask_for("bad", pod=bad)
        status = await made.told("bad", "reason", "Refused")
        assert "image" in status["message"]
        await made.ask_for("web-1")
        await made.made("web-1")


async def test_the_pod_goes_with_its_shadow_pod_and_another_of_that_name_follows(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        await made.ask_for("web-1")
        first = (await made.made("web-1"))["metadata"]["uid"]
        await made.set_phase("web-1", "Running")
        await made.settled()
        await made.admin.delete(SHADOW_PODS, "web-1", SHOP)
        await made.ask_for("web-1", labels={"app": "second"})
        pod = await made.made("web-1", other_than=first)
        assert pod["metadata"]["labels"]["app"] == "second"
        await made.admin.delete(SHADOW_PODS, "web-1", SHOP)
        await gone(made, "web-1")


async def test_the_end_of_a_shadow_pod_that_was_watched_is_not_asked_for(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        await made.ask_for("web-1")
        await made.made("web-1")
        await made.admin.delete(SHADOW_PODS, "web-1", SHOP)
        await gone(made, "web-1")
        await made.settled()
        assert not any(verb == "get" for verb, _ in made.requests())


@pytest.mark.parametrize("count", [1, 3])
async def test_a_list_that_lacks_shadow_pods_ends_no_pod(cluster, count):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        names = [f"web-{number}" for number in range(count)]
        for name in names:
            await made.ask_for(name)
        before = [(await made.made(name))["metadata"]["uid"] for name in names]
        informer = made.context.informers.find(SHADOW_PODS)
        await informer.replace({})
        await trio.sleep(0.5)
        assert [(await made.pod(name))["metadata"]["uid"] for name in names] == before
        # The same list is believed where it is true.
        await made.admin.delete(SHADOW_PODS, names[0], SHOP)
        await gone(made, names[0])
        assert all([await made.pod(name) for name in names[1:]])


async def test_namespaces_of_others_are_not_looked_at(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant()
        await made.admin.create(NAMESPACES, {"metadata": {"name": "private"}})
        await made.ask_for("web-1", "private")
        await made.ask_for("web-1")
        await made.made("web-1")
        await made.settled()
        assert await made.pod("web-1", "private") is None
        await made.map_namespace("late-rome")
        await made.ask_for("web-2", "late-rome")

        async def late():
            return await made.pod("web-2", "late-rome")

        await eventually(late)


@pytest.mark.long
async def test_two_hundred_pods_cost_a_write_each(cluster):
    async with lending(cluster) as made, at_work(made, SOON):
        await made.grant(cpu="150")
        for number in range(200):
            await made.ask_for(f"web-{number:03}")

        async def admitted():
            return len(await made.admin.list(PODS, Selection(SHOP))) == 150

        await eventually(admitted)
        for pod in await made.admin.list(PODS, Selection(SHOP)):
            await made.set_phase(pod["metadata"]["name"], "Running")
        await made.settled()
        assert made.requests() == {("create", "pods"): 150, ("patch", "shadowpods/status"): 50}
