"""Pods through the engine, with milan's own provider making them."""

from types import SimpleNamespace
from typing import Any

import msgspec
import trio

from liqod.apimachinery.kinds import NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS
from liqod.kube.selection import Selection
from liqod.network.ipam.peercidrs import PeerCIDRs
from liqod.plugins import loader
from liqod.plugins.contracts import Plan, View
from liqod.plugins.hookspecs import hookimpl
from liqod.plugins.loader import OWN, PluginSource
from liqod.plugins.reflectors import pods
from liqod.reflection.timings import ReflectionTimings
from liqod.resources import CONFIGURATIONS, QUOTAS, SHADOW_PODS
from tests.simulated.borrower import eventually
from tests.simulated.lendingpods import LENDER, here, lending, lending_to, quota, ready
from tests.simulated.reflecting import SHOP, THERE, pair


async def test_a_pod_runs_there_and_is_ready_here_with_two_writes_and_no_read():
    async with lending() as (both, _):
        await both.pod("warm-up")
        await here(both, "warm-up")
        before = both.requests()
        local = await both.pod("web", metadata={"labels": {"app": "web"}})
        pod = await here(both, "web")
        assert both.since(before) == [("create", "shadowpods"), ("patch", "pods/status")]
        shadow = await both.there.get(SHADOW_PODS, "web", THERE)
        assert shadow["metadata"]["labels"] == {
            "app": "web",
            "offloading.liqo.io/origin": "rome",
            "offloading.liqo.io/destination": "milan",
            "offloading.liqo.io/nodename": "milan",
            "liqo.io/creator-user": "milan-rome",
        }
        assert shadow["metadata"]["annotations"]["liqod.io/local-uid"] == local["metadata"]["uid"]
        remote_pod = await both.there.get(PODS, "web", THERE)
        assert remote_pod["spec"]["nodeName"].startswith("milan-")
        assert pod["status"]["phase"] == "Running"
        assert pod["status"]["podIP"] == remote_pod["status"]["podIP"]
        tolerated = {each["key"] for each in shadow["spec"]["pod"].get("tolerations", ())}
        assert "virtual-node.liqo.io/not-allowed" not in tolerated


async def test_what_carries_nothing_new_is_not_decided_on():
    decided: list[str] = []

    def outgoing(source: dict[str, Any], view: View) -> Plan:
        decided.append(source["metadata"]["name"])
        return pods.outgoing(source, view)

    counted = [
        msgspec.structs.replace(each, outgoing=outgoing) if each is pods.REFLECTOR else each
        for each in loader.load(sources=loader.built_in()).reflectors
    ]
    provided = SimpleNamespace(liqod_reflectors=hookimpl(lambda: counted))
    plugins = loader.load(sources=[PluginSource("ours", OWN, "1", lambda: provided)])
    async with lending(plugins=plugins) as (both, _):
        await both.pod("web")
        await here(both, "web")
        await trio.sleep(0.5)
        # Six changes of three objects so far; it was bound here, and it became ready there.
        assert 2 <= len(decided) <= 3  # our own write may be seen before it is answered
        seen = len(decided)
        note = {"metadata": {"annotations": {"note": "one"}}}
        await both.here.patch(PODS, "web", note, SHOP)
        await both.comes(SHADOW_PODS, "web", lambda found: "note" in notes(found))
        assert len(decided) > seen


def notes(found: dict[str, Any]) -> dict[str, str]:
    annotations: dict[str, str] = found["metadata"].get("annotations") or {}
    return annotations


async def test_addresses_stay_empty_where_they_do_not_cross():
    async with lending(text='[peer_defaults]\npod_network = "none"\n') as (both, _):
        await both.pod("web")
        pod = await here(both, "web")
        assert "podIP" not in pod["status"]
        assert "podIPs" not in pod["status"]


async def test_addresses_behind_a_tunnel_are_translated_once_the_ranges_are_known():
    async with lending(text="[peer_defaults]\n") as (both, nursery):
        nursery.start_soon(PeerCIDRs(both.peer).run)
        await both.pod("web")
        pod = await here(both, "web")
        assert "podIP" not in pod["status"]
        remote_pod = await both.there.get(PODS, "web", THERE)
        real = remote_pod["status"]["podIP"]
        network = ".".join(real.split(".")[:2])
        cidr = {"pod": [f"{network}.0.0/16"], "external": ["10.70.0.0/16"]}
        spec = {"local": {"cidr": cidr}, "remote": {"cidr": cidr}}
        body = {"metadata": {"name": "milan"}, "spec": spec}
        await both.here.create(CONFIGURATIONS, body, both.tenant)
        for other in ("10.71", "10.73"):
            seen = {"cidr": {"pod": [f"{other}.0.0/16"], "external": ["10.72.0.0/16"]}}
            await both.here.patch(
                CONFIGURATIONS,
                "milan",
                {"status": {"remote": seen}},
                both.tenant,
                subresource="status",
            )
            alias = real.replace(network, other, 1)
            await here(both, "web", lambda pod, alias=alias: pod["status"].get("podIP") == alias)


async def test_labels_follow():
    async with lending() as (both, _):
        await both.pod("web")
        await here(both, "web")
        await both.here.patch(PODS, "web", {"metadata": {"labels": {"tier": "front"}}}, SHOP)
        await both.comes(
            PODS, "web", lambda found: found["metadata"]["labels"].get("tier") == "front"
        )


async def test_a_deleted_pod_ends_there_first():
    async with lending() as (both, _):
        await both.pod("web", spec={"terminationGracePeriodSeconds": 1})
        await here(both, "web")
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(SHADOW_PODS, "web")
        await both.goes(PODS, "web")
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)


async def test_a_pod_that_is_deleted_with_a_grace_ends_within_it_there_too():
    async with lending() as (both, _):
        for name in ("web", "ordinary"):
            await both.pod(name, metadata={"annotations": {"liqod.io/deletion-grace": "7"}})
            await here(both, name)
        slow = {"metadata": {"annotations": {"simulator.liqod.io/stop-delay": "60"}}}
        await both.there.patch(PODS, "web", slow, THERE)
        before = both.requests()
        await both.here.delete(PODS, "web", SHOP, grace=1)
        with trio.fail_after(15):  # its own would be half a minute
            await both.goes(PODS, "web", seconds=15)
            await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        asked = both.since(before)
        assert ("patch", "shadowpods") in asked
        assert ("delete", "shadowpods") in asked
        before = both.requests()
        await both.here.delete(PODS, "ordinary", SHOP)
        await both.goes(PODS, "ordinary", client=both.here, namespace=SHOP)
        assert ("patch", "shadowpods") not in both.since(before)


async def test_a_pod_on_a_peer_that_does_not_answer_stays_terminating():
    async with lending() as (both, _):
        await both.pod("web")
        await here(both, "web")
        both.link.set(False, "its API server does not answer")
        await both.here.delete(PODS, "web", SHOP)
        await trio.sleep(0.3)
        found = await both.here.get(PODS, "web", SHOP)
        assert found["metadata"]["deletionTimestamp"]
        assert await both.there.find(SHADOW_PODS, "web", THERE) is not None
        both.link.set(True, "its API server answers")
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        await both.goes(SHADOW_PODS, "web")


async def test_a_pod_that_came_again_under_its_name_gets_a_remote_pod_of_its_own():
    async with lending() as (both, _):
        first = await both.pod("web-0")
        await here(both, "web-0")
        await both.here.delete(PODS, "web-0", SHOP, grace=0)
        again = await both.pod("web-0")
        pod = await here(both, "web-0")
        assert pod["metadata"]["uid"] == again["metadata"]["uid"] != first["metadata"]["uid"]
        shadow = await both.there.get(SHADOW_PODS, "web-0", THERE)
        uid = shadow["metadata"]["annotations"]["liqod.io/local-uid"]
        assert uid == again["metadata"]["uid"]


async def test_a_remote_pod_that_goes_is_made_again_and_counted():
    async with lending() as (both, _):
        await both.pod("web")
        pod = await here(both, "web")
        await both.there.delete(PODS, "web", THERE, grace=0)

        def restarted(found: dict[str, Any]) -> bool:
            containers = found["status"].get("containerStatuses") or [{}]
            return ready(found) and bool(containers[0].get("restartCount") == 1)

        again = await here(both, "web", restarted)
        assert again["metadata"]["uid"] == pod["metadata"]["uid"]


async def test_a_remote_pod_that_stays_pending_says_why_here():
    async with lending() as (both, _):
        for node in await both.there.list(NODES):
            cordoned = {"spec": {"unschedulable": True}}
            await both.there.patch(NODES, node["metadata"]["name"], cordoned)
        await both.pod("web")

        def told(found: dict[str, Any]) -> bool:
            return bool(found["status"].get("reason") == "Unschedulable")

        pod = await here(both, "web", told)
        assert "nodes are available" in pod["status"]["message"]
        before = both.requests()
        await both.here.delete(PODS, "web", SHOP)
        await both.goes(PODS, "web", client=both.here, namespace=SHOP)
        assert await both.there.find(PODS, "web", THERE) is None, "it ended there first"
        assert ("get", "pods") in both.since(before)


async def test_a_remote_pod_that_leaves_the_watch_by_its_phase_is_looked_for_and_not_ended():
    async with lending() as (both, _):
        await both.pod("web")
        pod = await here(both, "web")
        remote_pod = await both.there.get(PODS, "web", THERE)
        before = both.requests()
        pending = {"status": {"phase": "Pending"}}  # until its kubelet says otherwise
        await both.there.patch(PODS, "web", pending, THERE, subresource="status")

        async def looked() -> bool:
            return ("get", "pods") in both.since(before)

        await eventually(looked)
        await trio.sleep(pods.SOON)
        still = await both.there.get(PODS, "web", THERE)
        assert still["metadata"]["uid"] == remote_pod["metadata"]["uid"]
        assert not {("delete", "shadowpods"), ("delete", "pods")} & set(both.since(before))
        again = await here(both, "web")
        assert again["metadata"]["uid"] == pod["metadata"]["uid"]


async def test_pods_on_own_nodes_are_not_followed_and_others_whatever_was_left_out():
    async with pair() as both:
        own = both.context.own_pods
        own.exclude(["milan", "worker"])  # a node that had the virtual node's name
        async with lending_to(both):
            await both.pod("elsewhere", node="worker")
            await both.pod("web")
            await here(both, "web")

            def followed() -> set[str]:
                informer = both.context.informers.find(PODS, own.selection)
                return set() if informer is None else {key[1] for key in informer.store}

            assert followed() == {"web"}
            own.exclude(["another"])
            await both.pod("late")
            await here(both, "late")
            await here(both, "web")
            assert followed() == {"elsewhere", "web", "late"}


async def test_a_pod_over_quota_waits_and_says_why_and_comes_when_there_is_room():
    async with lending() as (both, _):
        await both.there.patch(QUOTAS, "milan-rome", {"spec": {"resources": {"pods": "1"}}}, LENDER)
        await both.pod("first")
        await here(both, "first")
        await both.pod("second")

        def waits(found: dict[str, Any]) -> bool:
            return bool(found["status"].get("reason"))

        pod = await here(both, "second", waits, seconds=30)
        assert "milan" in pod["status"]["message"]
        assert pod["status"]["phase"] == "Pending"
        await both.here.delete(PODS, "first", SHOP)
        pod = await here(both, "second")
        assert not pod["status"].get("reason")


async def test_a_pod_that_cannot_be_offloaded_says_why():
    async with lending() as (both, _):
        await both.pod(
            "web", spec={"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
        )

        def told(found: dict[str, Any]) -> bool:
            return bool(found["status"].get("reason") == "OffloadingUnsupported")

        pod = await here(both, "web", told)
        (condition,) = [
            each for each in pod["status"]["conditions"] if each["type"] == "liqod.io/Offloaded"
        ]
        assert "PersistentVolumeClaim" in condition["message"]
        assert await both.there.list(SHADOW_PODS, Selection(THERE)) == []


async def test_a_pod_of_a_namespace_that_is_not_offloaded_waits_with_one_reason():
    async with lending() as (both, _):
        await both.here.create(NAMESPACES, {"metadata": {"name": "other"}})
        await both.comes(SERVICE_ACCOUNTS, "default", client=both.here, namespace="other")
        manifest = {
            "metadata": {"name": "web"},
            "spec": {"containers": [{"name": "web", "image": "nginx"}], "nodeName": "milan"},
        }
        await both.here.create(PODS, manifest, "other")
        pod = await both.comes(
            PODS,
            "web",
            lambda found: found["status"].get("reason") == "OffloadingBackOff",
            client=both.here,
            namespace="other",
        )
        assert pod["status"]["phase"] == "Pending"
        before = both.requests()
        await trio.sleep(0.3)
        assert [each for each in both.since(before) if each[1].startswith("pods")] == []
        await both.here.delete(PODS, "web", "other")
        await both.goes(PODS, "web", client=both.here, namespace="other")


async def test_a_namespace_that_is_taken_back_ends_its_pods_after_a_grace_time():
    async with lending(engine={"timings": ReflectionTimings(grace=0.3)}) as (both, _):
        await both.pod("web")
        await here(both, "web")
        await both.map(None)
        await trio.sleep(0.5)
        found = await both.here.get(PODS, "web", SHOP)
        assert found["status"]["phase"] == "Running", "the map still asks for it"
        await both.desire(None)

        def aborted(found: dict[str, Any]) -> bool:
            return bool(found["status"].get("reason") == "OffloadingAborted")

        pod = await here(both, "web", aborted)
        assert pod["status"]["phase"] == "Failed"


async def test_what_happened_to_pods_while_nobody_looked_is_made_up_for():
    async with lending() as (both, nursery):
        for name in ("kept", "gone"):
            await both.pod(name)
            await here(both, name)
        both.stop()
        await both.here.delete(PODS, "gone", SHOP, grace=0)
        await both.pod("new")
        before = both.requests()
        await both.start(nursery)
        await here(both, "new")
        await both.goes(SHADOW_PODS, "gone")
        asked = both.since(before)
        assert [each for each in asked if each[0] not in ("list", "watch", "get")] == [
            ("create", "shadowpods"),
            ("delete", "shadowpods"),
            ("patch", "pods/status"),
        ]


async def test_two_slices_write_each_with_its_own_identity():
    async with lending() as (both, _):
        await both.second_slice("milan-2")
        await quota(both, "milan-2-rome", "10")
        await both.node("milan-2")
        await both.pod("web", node="milan-2")
        await here(both, "web")
        shadow = await both.there.get(SHADOW_PODS, "web", THERE)
        assert shadow["metadata"]["labels"]["liqo.io/creator-user"] == "milan-2-rome"
        creates = both.identities.slices["milan-2"].stats.requests
        assert any(key[:2] == ("create", "shadowpods") for key in creates)


async def test_the_remote_pod_of_an_earlier_pod_is_removed_by_the_slice_that_wrote_it():
    async with lending() as (both, _):
        await both.second_slice("milan-2")
        await quota(both, "milan-2-rome", "10")
        await both.node("milan-2")
        await both.pod("web-0")
        await here(both, "web-0")
        await both.here.delete(PODS, "web-0", SHOP, grace=0)
        await both.pod("web-0", node="milan-2")
        await here(both, "web-0")
        asked = {name: each.stats.requests for name, each in both.identities.slices.items()}
        assert asked["milan"]["delete", "shadowpods"] >= 1
        assert asked["milan-2"]["delete", "shadowpods"] == 0


async def test_a_pod_there_that_nobody_here_asked_for_is_ended():
    async with lending() as (both, _):
        await both.pod("web")
        await here(both, "web")
        await both.here.delete(PODS, "web", SHOP, grace=0)
        await both.goes(SHADOW_PODS, "web")

        async def none_left() -> bool:
            return await both.there.list(PODS, Selection(THERE)) == []

        await eventually(none_left)
