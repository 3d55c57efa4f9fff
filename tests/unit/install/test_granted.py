"""Grants for the reflected kinds follow from the reflectors, and change where that is seen."""

import json
from typing import Any

import pytest

from liqod import config
from liqod.config import GuestSettings, ProviderSettings, parse
from liqod.errors import ConfigError
from liqod.install.daemonrights import DAEMON_ROLES
from liqod.install.storagerights import STORAGE
from liqod.plugins import declared
from liqod.plugins.contracts import Reflector
from liqod.plugins.declared import needed
from liqod.plugins.reflectors.disruptionbudgets import OPT_IN
from tests.testbed.granted import GRANTED, made

LISTED = json.loads(GRANTED.read_text())
"""The grants of an installation: its roles for reflected kinds, its policies for what guests write
as far as they follow from these, and its default quota. `python -m tests.testbed.granted` writes
them anew."""


def canonical(value: Any) -> Any:
    """JSON without the order of lists: to RBAC and admission they are sets."""
    if isinstance(value, dict):
        return {key: canonical(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(map(canonical, value), key=lambda each: json.dumps(each, sort_keys=True))
    return value


@pytest.mark.parametrize(
    "listed", LISTED["manifests"], ids=lambda each: f"{each['kind']}-{each['metadata']['name']}"
)
def test_what_is_granted_is_object_for_object_what_is_listed(listed: dict[str, Any]):
    now = made()[listed["kind"], listed["metadata"]["name"]]
    assert canonical(now) == canonical(listed)


def test_the_default_quota_is_the_listed_one():
    assert ProviderSettings().object_quota == LISTED["object_quota"]


@pytest.mark.parametrize("reflector", declared.reflectors(), ids=lambda each: each.name)
def test_the_daemon_may_do_what_each_built_in_reflector_needs(reflector: Reflector):
    rules = [rule for rules in DAEMON_ROLES.values() for rule in rules]
    if reflector.name == "persistentvolumeclaims":
        rules += STORAGE
    held = {
        (group, resource, verb)
        for rule in rules
        for group in rule.groups
        for resource in rule.resources
        for verb in rule.verbs
    }
    assert needed(reflector) <= held


def test_all_that_built_in_reflectors_write_is_granted_and_bounded_by_one_of_them():
    granted = {one.kind for each, _ in declared.grants() for one in each.written}
    assert granted == {one.kind for each in declared.reflectors() for one in each.written}
    for kind in granted:
        assert f"count/{kind.plural}.{kind.group}".rstrip(".") in ProviderSettings().object_quota


def test_a_consent_is_a_setting_of_its_own():
    assert parse("").guests.opt_ins == ()
    assert parse("[guests]\ndisruption_budgets = false").guests == GuestSettings()
    assert parse("[guests]\ndisruption_budgets = true").guests.opt_ins == (OPT_IN.setting,)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("disruption_budgets = 'yes'", "Expected `bool`, at `guests.disruption_budgets`"),
        ("disruption_budgetz = true", "unknown key guests.disruption_budgetz"),
        ("opt_ins = ['disruption_budgets']", "unknown key guests.opt_ins"),
    ],
)
def test_a_consent_that_is_none_is_refused(text: str, why: str):
    with pytest.raises(ConfigError, match=why) as raised:
        config.parse(f"[guests]\n{text}")
    if "unknown" in why and "budgetz" in text:
        assert "did you mean disruption_budgets" in str(raised.value)
