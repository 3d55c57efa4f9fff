"""Patterns of what is allowed."""

import pytest

from liqod.model.crossing.keys import (
    class_allowed,
    class_problem,
    host_allowed,
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


@pytest.mark.parametrize(
    ("host", "patterns", "expected"),
    [
        ("shop.example.com", ("shop.example.com",), True),
        ("shop.example.com", ("*.example.com",), True),
        ("a.b.example.com", ("*.example.com",), True),
        ("*.example.com", ("*.example.com",), True),
        ("example.com", ("*.example.com",), False),
        ("bank.example.org", ("*.example.com",), False),
        ("evilexample.com", ("*.example.com",), False),
        ("", ("*.example.com",), False),
        ("", ("*",), True),
        ("any", ("*",), True),
        ("any", (), False),
    ],
)
def test_hosts(host, patterns, expected):
    assert host_allowed(host, patterns) is expected


def test_classes():
    assert class_allowed("", ())
    assert class_allowed("nginx", ("nginx",))
    assert class_allowed("nginx", ("*",))
    assert not class_allowed("nginx", ("public",))


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
