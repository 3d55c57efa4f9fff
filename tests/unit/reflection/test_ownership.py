"""The labels and annotations by which a reflected object is known as ours."""

import copy

import pytest

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS, PODS, SECRETS
from liqod.plugins.contracts import NOTHING, Reflector, RemoteKind, Scope, Write
from liqod.reflection.ownership import OwnershipMeta, decorate, ours, source_of
from simulator.suites import NAMES


def make(name, kind, *there, **more):
    return Reflector(
        name=name,
        kind=kind,
        outgoing=lambda source, view: NOTHING,
        remote=there or (RemoteKind(kind=kind),),
        **more,
    )


CONFIGMAPS = make("configmaps", CONFIG_MAPS)
PODS_TOO = make(
    "pods",
    PODS,
    RemoteKind(kind=PODS, write=Write.ONCE),
    RemoteKind(kind=SECRETS),
    scope=Scope.NODE,
)
SECRETS_TOO = make("secrets", SECRETS)
SOURCE_OBJECT = {"metadata": {"name": "conf", "uid": "u-1"}, "spec": {"nodeName": "milan"}}


def test_a_wanted_object_gets_its_place_and_the_marks_of_ownership():
    wanted = {
        "kind": "ConfigMap",
        "metadata": {"name": "conf", "labels": {"app": "web"}, "uid": "x", "finalizers": ["y"]},
        "data": {"a": "1"},
    }
    before = copy.deepcopy(wanted)
    made = decorate(
        wanted, reflector=CONFIGMAPS, remote=CONFIGMAPS.remote[0], source=SOURCE_OBJECT, names=NAMES
    )
    assert made == {
        "kind": "ConfigMap",
        "metadata": {
            "name": "conf",
            "namespace": "shop-rome",
            "labels": {
                "app": "web",
                "offloading.liqo.io/origin": "rome",
                "offloading.liqo.io/destination": "milan",
            },
            "annotations": {labels.SOURCE: "configmaps/conf"},
        },
        "data": {"a": "1"},
    }
    assert wanted == before


def test_an_object_written_once_names_node_and_uid():
    made = decorate(
        {"metadata": {"name": "conf"}},
        reflector=PODS_TOO,
        remote=PODS_TOO.remote[0],
        source=SOURCE_OBJECT,
        names=NAMES,
    )
    assert made["metadata"]["labels"]["offloading.liqo.io/nodename"] == "milan"
    assert made["metadata"]["annotations"]["liqod.io/local-uid"] == "u-1"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"}, True),
        ({"offloading.liqo.io/origin": "rome"}, False),
        ({"offloading.liqo.io/origin": "turin", "offloading.liqo.io/destination": "milan"}, False),
        ({}, False),
    ],
)
def test_ours_is_what_carries_both_labels(labels, expected):
    assert ours(labels, "rome", "milan") is expected


REFLECTORS = (CONFIGMAPS, PODS_TOO, SECRETS_TOO)


@pytest.mark.parametrize(
    ("annotations", "kind", "expected"),
    [
        ({labels.SOURCE: "configmaps/conf"}, CONFIG_MAPS, ("configmaps", "conf")),
        ({labels.SOURCE: "secrets/cred"}, SECRETS, ("secrets", "cred")),
        ({labels.SOURCE: "pods/web"}, SECRETS, ("pods", "web")),
        ({labels.SOURCE: "gadgets/g"}, SECRETS, None),
        ({labels.SOURCE: "configmaps/conf"}, SECRETS, None),
        ({}, CONFIG_MAPS, ("configmaps", "there")),
    ],
)
def test_the_annotation_says_which_object_it_was_made_from(annotations, kind, expected):
    assert source_of(OwnershipMeta("there", {}, annotations), kind, REFLECTORS) == expected
