"""An installation's grants for reflectors of packages, and the packages that it loads code of."""

import sys
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import pytest

from liqod.errors import ConfigError
from liqod.install import Options, manifests
from liqod.install.manifests import MANAGED
from liqod.install.plugingrants import Declared, here, lent, load, shown
from liqod.plugins import loader
from liqod.plugins.contracts import READ, AdmissionPolicy, Validation
from liqod.plugins.loader import PluginSource
from liqod.provider.policies.policycontroller import InstalledPolicy, bounds
from tests.unit.plugins.test_overreach import GOOD, HOSTILE, of, plugin

PACKAGE = Declared(GOOD, "liqod-gadgets 0.4.0")


def source(
    reflector: Any = GOOD, name: str = "gadgets", package: str = "liqod-gadgets"
) -> PluginSource:
    return PluginSource(name, package, "0.4.0", lambda: plugin(reflector))


def never() -> NoReturn:
    raise AssertionError("nobody named it")


def test_only_the_code_that_is_named_is_loaded():
    [found] = load(["gadgets", "gadgets"], [source(), PluginSource("other", "other", "1", never)])
    assert found == PACKAGE


def test_an_installation_that_names_no_plugin_looks_for_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loader, "installed", lambda: [PluginSource("other", "other", "1", never)])
    assert load([]) == []
    assert not [one for one in manifests(Options(cluster_id="milan"), []) if marked(one)]


def marked(manifest: dict[str, Any]) -> bool:
    return "liqod.io/plugin" in manifest["metadata"]["labels"]


@pytest.mark.parametrize(
    ("sources", "why"),
    [
        ([], "there is no plugin gadgets; is its package installed here"),
        ([source(name="gadget")], "did you mean gadget?"),
        ([source(), source(package="liqod-gadgetz")], "several plugins gadgets: of liqod-gadgets"),
        ([source(HOSTILE["everything"][0])], r"liqod-gadgets: rights has \* of \* \(\*\)"),
        ([source(HOSTILE["no bound"][0])], "grant.quota is to bound count/gadgets.example.com"),
        ([PluginSource("gadgets", "liqod-gadgets", "1", never)], "nobody named it"),
    ],
)
def test_what_cannot_be_granted_is_refused_with_the_reason(sources: list[PluginSource], why: str):
    with pytest.raises(ConfigError, match=why):
        load(["gadgets"], sources)


def test_the_daemon_gets_what_is_declared_with_the_reasons():
    [role] = here(PACKAGE)
    assert role["metadata"] == {
        "name": "liqod-plugin-gadgets",
        "labels": {"liqod.io/plugin": "gadgets", "liqod.io/aggregate-to-daemon": "true"},
        "annotations": {
            "liqod.io/package": "liqod-gadgets 0.4.0",
            "liqod.io/reasons": "1. they are reflected\n2. they are reflected",
        },
    }
    assert [(one["resources"], one["verbs"]) for one in role["rules"]] == [
        (["gadgets"], list(READ)),
        (["parts"], [*READ, "create", "patch", "delete"]),
    ]


def test_one_that_declares_less_than_it_needs_is_refused_and_what_the_daemon_has_is_enough():
    less = of(rights=GOOD.rights[:1])
    with pytest.raises(ConfigError, match=r"declares no right to create of parts \(example.com\)"):
        here(Declared(less, "x 1"))
    ours = of(rights=(), kind=of().reads[0].kind, local=())
    assert here(Declared(ours, "x 1")) == []


def test_consumers_get_what_it_writes_and_are_held_first():
    policy, binding, role = lent(PACKAGE)
    assert [policy["kind"], binding["kind"], role["kind"]] == [
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ClusterRole",
    ]
    assert binding["spec"] == {
        "policyName": policy["metadata"]["name"],
        "validationActions": ["Deny"],
    }
    [rule] = role["rules"]
    assert (rule["apiGroups"], rule["resources"]) == (["example.com"], ["gadgets"])
    assert "deletecollection" not in rule["verbs"]
    [held] = policy["spec"]["matchConstraints"]["resourceRules"]
    assert (held["apiGroups"], held["resources"]) == (["example.com"], ["gadgets"])
    messages = [each["message"] for each in policy["spec"]["validations"]]
    assert any("finalizers" in each for each in messages)
    assert any("owner references" in each for each in messages)
    assert len(messages) == 4


def test_an_expression_is_asked_at_its_own_operations_and_cannot_undo_another():
    said = AdmissionPolicy(
        name="x", validations=(Validation("object.spec.size < 9", "small"),), operations=("CREATE",)
    )
    assert GOOD.grant is not None
    grant = msgspec.structs.replace(GOOD.grant, policy=said)
    policy, _, _ = lent(Declared(of(grant=grant), "x 1"))
    own = policy["spec"]["validations"][-1]
    assert own["expression"] == "(object.spec.size < 9) || request.operation == 'UPDATE'"
    assert len(policy["spec"]["validations"]) == 5


def test_one_that_grants_nothing_cannot_be_lent():
    with pytest.raises(ConfigError, match="declares nothing to lend"):
        lent(Declared(of(grant=None), "x 1"))


def test_what_is_granted_is_part_of_the_installation_and_shown():
    granted = (*here(PACKAGE), *lent(PACKAGE))
    made = [
        one for one in manifests(Options(cluster_id="milan", plugins=granted), []) if marked(one)
    ]
    assert len(made) == 4
    for each in made:
        assert MANAGED.items() <= each["metadata"]["labels"].items()  # uninstall goes by these
    assert shown(granted)[0] == (
        "liqod-gadgets 0.4.0: this cluster's daemon: get, list, watch of gadgets (example.com)"
    )
    assert "consumers, in their namespaces here: create, delete" in shown(granted)[-1]


def read(manifest: dict[str, Any]) -> InstalledPolicy:
    return msgspec.convert(manifest, InstalledPolicy)


def test_the_provider_s_daemon_bounds_what_was_granted_without_the_package():
    policy, _, _ = lent(PACKAGE)
    assert bounds([read(policy)]) == {"count/gadgets.example.com": "100"}


@pytest.mark.parametrize(
    "note",
    ["", "no JSON", "[]", '{"count/gadgets.example.com": 1}', '{"count/a.b": "-1", "pods": "1"}'],
)
def test_a_bound_that_is_none_counts_for_nothing(note: str):
    policy, _, _ = lent(PACKAGE)
    policy["metadata"]["annotations"]["liqod.io/object-quota"] = note
    assert bounds([read(policy)]) == {}


def test_only_policies_of_packages_bound():
    policy, _, _ = lent(PACKAGE)
    del policy["metadata"]["labels"]["liqod.io/plugin"]
    assert bounds([read(policy)]) == {}


@pytest.mark.parametrize("package", ["liqod_gadgets", "liqod_httproutes"])
def test_the_examples_can_be_granted(package: str):
    for each in load([package], [source_of(package)]):
        assert here(each)
        assert lent(each)


def source_of(package: str) -> PluginSource:
    folder = Path(__file__).parents[2] / "thirdparty"
    places = [str(folder), str(folder / "httproutes")]

    def module() -> Any:
        sys.path[:0] = places
        try:
            return __import__(package)
        finally:
            del sys.path[: len(places)]

    return PluginSource(package, package, "1", module)
