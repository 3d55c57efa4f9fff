"""Errors of the clusters that tests run on, split by what the caller does next."""

from __future__ import annotations


class TestbedError(Exception):
    """Something of the testbed broke; the test that needed it fails."""

    __test__ = False


class Missing(TestbedError):
    """The API server knows no such object."""


class Unavailable(TestbedError):
    """A real cluster cannot be had on this machine; the tests that need it are skipped with this
    reason.
    """
