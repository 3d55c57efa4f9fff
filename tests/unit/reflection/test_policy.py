"""Objects that follow their namespace: policy, annotations, and the one that governs."""

import pytest

from liqod.plugins.contracts import Policy
from liqod.reflection.topology import follows

SKIP = {"liqo.io/skip-reflection": "true"}
NO_SKIP = {"liqo.io/skip-reflection": "false"}
ALLOW = {"liqo.io/allow-reflection": "true"}


@pytest.mark.parametrize(
    ("policy", "annotations", "expected"),
    [
        (Policy.DENY_LIST, {}, True),
        (Policy.DENY_LIST, SKIP, False),
        (Policy.DENY_LIST, {"liqo.io/skip-reflection": ""}, False),
        (Policy.DENY_LIST, NO_SKIP, True),
        (Policy.DENY_LIST, ALLOW, True),
        (Policy.ALLOW_LIST, {}, False),
        (Policy.ALLOW_LIST, ALLOW, True),
        (Policy.ALLOW_LIST, {"liqo.io/allow-reflection": "False"}, False),
        (Policy.ALLOW_LIST, NO_SKIP, False),
        (Policy.ALWAYS, SKIP, True),
    ],
)
def test_an_object_is_judged_by_policy_and_annotation(policy, annotations, expected):
    assert follows(policy, annotations) is expected


@pytest.mark.parametrize(
    ("own", "governing", "governing_policy", "expected"),
    [
        ({}, SKIP, Policy.DENY_LIST, False),
        (NO_SKIP, SKIP, Policy.DENY_LIST, True),
        (SKIP, {}, Policy.DENY_LIST, False),
        ({}, ALLOW, Policy.ALLOW_LIST, True),
        ({}, {}, Policy.ALLOW_LIST, False),
        ({}, None, Policy.ALLOW_LIST, False),
        (ALLOW, {}, Policy.ALLOW_LIST, True),
    ],
)
def test_the_governing_object_speaks_where_the_object_is_silent(
    own, governing, governing_policy, expected
):
    verdict = follows(Policy.DENY_LIST, own, governing=governing, governing_policy=governing_policy)
    assert verdict is expected
