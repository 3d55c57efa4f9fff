"""The contract suite holds three reflectors: with a dependency, with a need, with two outputs."""

import copy
import time
from typing import ClassVar

import msgspec
import pytest

from liqod.apimachinery.kinds import CONFIG_MAPS, PODS, SECRETS, SERVICES
from liqod.errors import PluginError
from liqod.plugins.callguard import CallGuardTimings
from liqod.plugins.contracts import (
    Plan,
    Reads,
    Reflector,
    RemoteKind,
    RemoteObject,
    ServiceAccountToken,
    Several,
    Token,
    Watch,
)
from simulator.suites import ReflectorContract, StaticView


def manifest(kind, name, **more):
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
        **more,
    }


def remote_object(kind, name, **more):
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "metadata": {"name": name},
        **more,
    }


def with_dependency(source, view):
    paint = view.get(CONFIG_MAPS, "paint")
    colour = "" if paint is None else paint["data"]["colour"]
    return Plan(
        remote=(remote_object(SERVICES, source["metadata"]["name"], spec={"colour": colour}),)
    )


DEPENDENT = Reflector(
    name="dependent",
    kind=SERVICES,
    outgoing=with_dependency,
    remote=(RemoteKind(kind=SERVICES),),
    reads=(Reads(CONFIG_MAPS),),
)


class TestDependency(ReflectorContract):
    reflector = DEPENDENT
    sources = (manifest(SERVICES, "web"),)
    local = (manifest(CONFIG_MAPS, "paint", data={"colour": "red"}),)


NEED = ServiceAccountToken(account="default", pod="web", pod_uid="uid-web")


def with_need(source, view):
    meta = source["metadata"]
    need = ServiceAccountToken(account="default", pod=meta["name"], pod_uid=meta["uid"])
    token = view.fulfilled(need)
    if token is None:
        return Plan(needs=(need,))
    data = {"token": token.text}
    return Plan(remote=(remote_object(SECRETS, f"{meta['name']}-token", stringData=data),))


NEEDY = Reflector(name="needy", kind=PODS, outgoing=with_need, remote=(RemoteKind(kind=SECRETS),))


class TestNeed(ReflectorContract):
    reflector = NEEDY
    sources = (manifest(PODS, "web"),)
    fulfilled: ClassVar = {NEED: Token("secret", "2026-01-01T01:00:00Z")}


def with_two_outputs(source, view):
    name = source["metadata"]["name"]
    return Plan(remote=(remote_object(CONFIG_MAPS, name), remote_object(SECRETS, f"{name}-too")))


DOUBLE = Reflector(
    name="double",
    kind=CONFIG_MAPS,
    outgoing=with_two_outputs,
    remote=(RemoteKind(kind=CONFIG_MAPS), RemoteKind(kind=SECRETS)),
)


class TestTwoOutputs(ReflectorContract):
    reflector = DOUBLE
    sources = (manifest(CONFIG_MAPS, "a"), manifest(CONFIG_MAPS, "b"))


def broken(outgoing, **more):
    class Broken(ReflectorContract):
        reflector = Reflector(
            **{
                "name": "broken",
                "kind": CONFIG_MAPS,
                "outgoing": outgoing,
                "remote": (RemoteKind(kind=CONFIG_MAPS),),
                **more,
            }
        )
        sources = (manifest(CONFIG_MAPS, "a", data={"k": "v"}),)

    return Broken()


def same(source, view):
    return Plan(remote=(remote_object(CONFIG_MAPS, source["metadata"]["name"]),))


def says_the_status(source, remote, view):
    return Plan(status=remote[0]["status"])


def says_it_under_the_peer(source, remote, view):
    return Plan(status={"at": {view.names.peer: remote[0]["status"]}})


def says_it_where_nothing_is_said(source, remote, view):
    known = "status" in source
    return Plan() if known else Plan(status=remote[0]["status"])


def makes_one_of_its_name(source, remote, view):
    return Plan(local=(remote_object(SECRETS, source["metadata"]["name"]),))


def joined(source, statuses):
    return {"peers": sorted(statuses), "lit": any(each["lit"] for each in statuses.values())}


def of_several(incoming, several, **more):
    class Shared(ReflectorContract):
        reflector = Reflector(
            name="shared",
            kind=CONFIG_MAPS,
            outgoing=same,
            incoming=incoming,
            remote=(RemoteKind(kind=CONFIG_MAPS, watch=Watch.FULL),),
            several=several,
            **more,
        )
        sources = (manifest(CONFIG_MAPS, "a"),)
        remote = (manifest(CONFIG_MAPS, "a", status={"lit": True}),)

    return Shared()


@pytest.mark.parametrize(
    "suite",
    [
        of_several(says_the_status, Several.FIRST),
        of_several(says_it_where_nothing_is_said, Several.FIRST),
        of_several(says_it_under_the_peer, Several.BY_PEER),
        of_several(says_the_status, Several.MERGED, combine=joined),
        of_several(makes_one_of_its_name, Several.FIRST, local=(SECRETS,)),
    ],
)
def test_two_peers_agree_by_the_rule(suite):
    suite.test_two_peers_do_not_fight()
    suite.test_two_peers_make_objects_of_their_own()
    suite.test_what_was_said_is_taken_back()


@pytest.mark.parametrize(
    ("incoming", "test", "said"),
    [
        (says_the_status, "test_two_peers_do_not_fight", "undo each other's status"),
        (makes_one_of_its_name, "test_two_peers_make_objects_of_their_own", "view.names.peer"),
    ],
)
def test_two_peers_that_fight_are_found_out(incoming, test, said):
    suite = of_several(incoming, Several.BY_PEER, local=(SECRETS,))
    with pytest.raises(AssertionError, match=said):
        getattr(suite, test)()


def changes_its_argument(source, view):
    source["data"]["k"] = "other"
    return Plan()


def remembers(source, view, seen=[]):  # noqa: B006  # the fault under test
    seen.append(1)
    return Plan(remote=(remote_object(CONFIG_MAPS, f"a-{len(seen)}"),))


def writes_what_it_does_not_declare(source, view):
    return Plan(remote=(remote_object(SECRETS, "a"),))


def copies_everything(source, view):
    return Plan(remote=(copy.deepcopy(source),))


def repeats(source, view):
    return Plan(remote=(remote_object(CONFIG_MAPS, "a"), remote_object(CONFIG_MAPS, "a")))


def is_not_json(source, view):
    return Plan(remote=(remote_object(CONFIG_MAPS, "a", data={"k": (1, 2)}),))


def asks_for_nothing_it_was_given(source, view):
    return Plan(needs=(NEED,))


@pytest.mark.parametrize(
    ("outgoing", "test"),
    [
        (changes_its_argument, "changes_nothing_that_it_is_given"),
        (remembers, "is_a_function_of_values"),
        (writes_what_it_does_not_declare, "writes_only_what_it_declares"),
        (copies_everything, "leaves_to_the_server_what_is_the_servers"),
        (repeats, "names_what_it_writes"),
        (is_not_json, "writes_json"),
        (asks_for_nothing_it_was_given, "asks_for_its_needs"),
    ],
)
def test_the_suite_finds_a_reflector_that_breaks_the_contract(outgoing, test):
    with pytest.raises(AssertionError):
        getattr(broken(outgoing), f"test_{test}")()


def test_reading_what_is_not_declared_is_refused():
    view = StaticView(DOUBLE)
    with pytest.raises(PluginError, match="does not declare"):
        view.get(SERVICES, "web")


WATCHED = remote_object(CONFIG_MAPS, "a", status={"lit": True})


def asks_in_turn(source, remote, view):
    """Needs that arise on the way back, the second by what the first one brought."""
    first = view.fulfilled(FIRST)
    if first is None:
        return Plan(needs=(FIRST,))
    second = RemoteObject(kind=CONFIG_MAPS, name=first["next"])
    return Plan(needs=() if view.fulfilled(second) is not None else (second,))


FIRST = RemoteObject(kind=CONFIG_MAPS, name="first")


class TestNeedsOfTheWayBack(ReflectorContract):
    reflector = Reflector(
        name="back",
        kind=CONFIG_MAPS,
        outgoing=same,
        incoming=asks_in_turn,
        remote=(RemoteKind(kind=CONFIG_MAPS, watch=Watch.FULL),),
    )
    sources = (manifest(CONFIG_MAPS, "a"),)
    remote = (WATCHED,)
    fulfilled: ClassVar = {
        FIRST: {"next": "second"},
        RemoteObject(kind=CONFIG_MAPS, name="second"): {},
    }

    def test_two_peers_have_something_to_say(self) -> None:
        """It has nothing to say of any peer."""


def test_what_is_in_fulfilled_for_nothing_is_found_out():
    class Broken(TestNeedsOfTheWayBack):
        fulfilled: ClassVar = {**TestNeedsOfTheWayBack.fulfilled, NEED: {}}

    with pytest.raises(AssertionError, match="it never asks for"):
        Broken().test_asks_for_its_needs()

    class Lacking(TestNeedsOfTheWayBack):
        fulfilled: ClassVar = {FIRST: {"next": "second"}}

    with pytest.raises(AssertionError, match="put what the engine would fetch"):
        Lacking().test_asks_for_its_needs()


def test_an_answer_that_the_daemon_does_not_take_is_found_out():
    before = TestNeedsOfTheWayBack.reflector

    class Broken(TestNeedsOfTheWayBack):
        reflector = msgspec.structs.replace(
            before, outgoing=lambda source, view: Plan(requeue_after=-1.0)
        )

    with pytest.raises(AssertionError, match="requeue_after is to be 0 seconds or more"):
        Broken().test_returns_plans()
    suite = of_several(says_the_status, Several.MERGED, combine=lambda source, statuses: [statuses])
    with pytest.raises(AssertionError, match="combine returned list"):
        suite.test_comes_back_at_once()


def test_a_debounce_that_nothing_is_given_for_is_found_out():
    (kind,) = TestNeedsOfTheWayBack.reflector.remote

    class Broken(TestDependency):
        reflector = msgspec.structs.replace(
            TestNeedsOfTheWayBack.reflector,
            remote=(msgspec.structs.replace(kind, debounce=lambda body: 0.0),),
        )

    with pytest.raises(AssertionError, match="put a ConfigMap into `remote`"):
        Broken().test_says_for_how_long_a_change_may_wait()


def sleeps(*args):
    time.sleep(2 * BLOCKS)
    return Plan()


BLOCKS = 0.05


@pytest.mark.parametrize(
    ("changes", "test", "said"),
    [
        ({"outgoing": sleeps}, "comes_back_at_once", "sleeps took"),
        ({"incoming": sleeps}, "comes_back_at_once", "sleeps took"),
        (
            {"offered": lambda node: "yes"},
            "says_of_a_node_whether_its_provider_takes_it",
            "offered returned str 'yes'",
        ),
        ({"offered": sleeps}, "says_of_a_node_whether_its_provider_takes_it", "sleeps took"),
        (
            {"debounce": lambda body: "1"},
            "says_for_how_long_a_change_may_wait",
            "debounce returned str '1'",
        ),
        ({"debounce": sleeps}, "says_for_how_long_a_change_may_wait", "sleeps took"),
    ],
)
def test_what_the_daemon_would_park_is_found_out(changes, test, said):
    before = TestNeedsOfTheWayBack.reflector
    if "debounce" in changes:
        (kind,) = before.remote
        changes = {"remote": (msgspec.structs.replace(kind, **changes),)}

    class Broken(TestNeedsOfTheWayBack):
        reflector = msgspec.structs.replace(before, **changes)
        timings = CallGuardTimings(slow=BLOCKS)

    with pytest.raises(AssertionError, match=said):
        getattr(Broken(), f"test_{test}")()
