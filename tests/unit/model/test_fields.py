"""The treatment of each field at a peer: the table against the reflectors."""

from typing import Any

import pytest

from liqod.model.crossing import fields
from liqod.model.crossing.fields import Fate
from liqod.model.objects.eligibility import obstacle
from liqod.model.objects.podspec import shadow_spec
from tests.testbed import fieldspage


def pod(**spec: Any) -> dict[str, Any]:
    containers = [{"name": "web", "image": "nginx"}]
    return {"metadata": {"name": "web"}, "spec": {"containers": containers, **spec}}


def names(fate: Fate) -> list[str]:
    return [name for name, field in fields.POD.items() if field.fate is fate]


@pytest.mark.parametrize("name", names(Fate.CROSSES))
def test_what_crosses_is_there_as_it_is_here(name: str):
    found = pod(**{name: "x"})
    assert shadow_spec(found, consumer="rome")[name] == "x"
    assert obstacle(found) is None


@pytest.mark.parametrize("name", names(Fate.STAYS))
def test_what_stays_is_not_there(name: str):
    found = pod(**{name: "x"})
    assert name not in shadow_spec(found, consumer="rome")
    assert obstacle(found) is None
    assert fields.POD[name].why


@pytest.mark.parametrize("name", names(Fate.OBSTACLE))
def test_an_obstacle_says_why(name: str):
    verdict = obstacle(pod(**{name: [{"name": "x"}]}))
    assert verdict is not None
    assert fields.POD[name].why in verdict.message


def test_a_field_that_nobody_has_decided_about_keeps_the_pod_here():
    verdict = obstacle(pod(sealedCompartment={"level": "high"}))
    assert verdict is not None
    assert verdict.reason == "UnsupportedField"
    assert "sealedCompartment" in verdict.message
    assert obstacle(pod(sealedCompartment={})) is None


@pytest.mark.parametrize(
    ("wanted", "there", "lost"),
    [
        ({"hostUsers": False}, {"containers": []}, ("hostUsers",)),
        ({"hostUsers": False}, {"hostUsers": False}, ()),
        ({"hostUsers": True}, {"containers": []}, ()),
        ({"resources": {"limits": {"cpu": "1"}}}, {"containers": []}, ("resources",)),
        ({"resources": {"limits": {"cpu": "1"}}}, {"resources": {"limits": {"cpu": "1000m"}}}, ()),
        ({"hostUsers": False}, {}, ()),
        ({}, {"containers": []}, ()),
    ],
)
def test_isolation_that_an_older_server_dropped_is_noticed(wanted, there, lost):
    assert fields.lost(wanted, there) == lost


def test_the_page_says_what_the_tables_say():
    assert fieldspage.PAGE.read_text() == fieldspage.render(), (
        "run `python -m tests.testbed.fieldspage`"
    )


def test_every_field_of_kubernetes_has_been_decided_about():
    _, types = fieldspage.known()
    assert fieldspage.undecided(types) == []
    more = {**types, "PodSpec": {**types["PodSpec"], "sealedCompartment": ""}}
    assert fieldspage.undecided(more) == ["PodSpec.sealedCompartment: nobody has decided"]


def test_a_field_that_a_server_has_and_the_page_has_not_is_found():
    _, types = fieldspage.known()
    spec = {"properties": {**types["PodSpec"], "sealedCompartment": {}}}
    schemas = {"io.k8s.api.core.v1.PodSpec": spec, "io.k8s.apimachinery.pkg.Toleration": spec}
    assert fieldspage.news(schemas, types) == ["PodSpec.sealedCompartment"]
