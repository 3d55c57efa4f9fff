"""The program tells its versions, and how it was installed."""

from pathlib import Path

import pytest

from liqod import __version__
from liqod.runtime import programinfo


@pytest.mark.parametrize(
    ("direct_url", "origin"),
    [
        (None, "index"),
        ("nonsense", "index"),
        ('{"url":"file:///src","dir_info":{"editable":true}}', "checkout"),
        ('{"url":"file:///src","dir_info":{}}', "folder"),
        ('{"url":"file:///src","dir_info":[]}', "folder"),
        ('{"url":"file:///liqod.whl","archive_info":{}}', "file"),
    ],
)
def test_its_origin_is_what_the_installer_noted(direct_url: str | None, origin: str):
    assert programinfo.origin(direct_url) == origin


def test_what_it_needs_is_listed_without_extras_and_what_is_missing_is_told():
    required = ["msgspec>=0.19", "no-such.thing", 'textual-serve>=1.1; extra == "web"', ">=1"]
    found = programinfo.dependencies(required)
    assert found["msgspec"][0].isdigit()
    assert found["no-such.thing"] == ""
    assert len(found) == 2


def test_a_container_is_known_by_its_cluster_or_its_engine(tmp_path: Path):
    mark = tmp_path / ".containerenv"
    assert not programinfo.in_container({}, [mark])
    assert programinfo.in_container({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, [mark])
    mark.touch()
    assert programinfo.in_container({}, [mark])


def test_it_looks_at_itself():
    found = programinfo.look()
    assert found.version == __version__
    assert found.python.startswith("CPython 3.")
    assert found.kernel.startswith("Linux ")
    assert {"trio", "msgspec", "cryptography"} <= found.dependencies.keys()
    assert all(found.dependencies.values())
    assert found.origin == "checkout"
