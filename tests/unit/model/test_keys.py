"""Patterns of what is allowed."""

import pytest

from liqod.model.crossing.allowedkeys import (
    class_problem,
    host_problem,
    key_allowed,
    pattern_problem,
)


@pytest.mark.parametrize(
    ("key", "patterns", "expected"),
    [
        ("app", ("*",), True),
        ("app", ("app",), True),
        ("app", (), False),
        ("app", ("application",), False),
        ("example.com/app", ("*",), False),
        ("example.com/app", ("example.com/*",), True),
        ("example.com/app", ("example.com/app",), True),
        ("sub.example.com/app", ("example.com/*",), False),
        ("example.com/app", ("*/*",), True),
        ("app", ("*/*",), True),
        ("example.com", ("example.com/*",), False),
    ],
)
def test_keys(key, patterns, expected):
    assert key_allowed(key, patterns) is expected


@pytest.mark.parametrize("pattern", ["", "a b", "*.com/*", "example.com/a*", "a/b/c", "a/", "**"])
def test_what_is_no_pattern_of_keys(pattern):
    assert pattern_problem(pattern)


@pytest.mark.parametrize("pattern", ["*", "*/*", "app", "example.com/*", "example.com/app"])
def test_what_is_one(pattern):
    assert pattern_problem(pattern) == ""


def test_patterns_of_hosts_and_classes():
    assert [host_problem(each) for each in ("*", "a.example", "*.example")] == ["", "", ""]
    assert all(host_problem(each) for each in ("", "a.*", "*example", "a b", "**"))
    assert [class_problem(each) for each in ("*", "nginx")] == ["", ""]
    assert all(class_problem(each) for each in ("", "ng*", "a b"))
