"""Manifests as they are read from files, folders and standard input."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from liqod.cli import manifests
from liqod.errors import ConfigError

ONE = "apiVersion: v1\nkind: Namespace\nmetadata: {name: one}\n"
TWO = "apiVersion: v1\nkind: Namespace\nmetadata: {name: two}\n"


def test_a_folder_is_read_with_those_in_it_and_without_what_is_no_object(tmp_path: Path):
    (tmp_path / "below").mkdir()
    (tmp_path / ".git").mkdir()
    (tmp_path / "below" / "one.yml").write_text(f"---\n{ONE}---\n---\n{TWO}")
    (tmp_path / "list.json").write_text(
        '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "apps/v1",'
        ' "kind": "Deployment", "metadata": {"name": "web", "namespace": "shop"}}]}'
    )
    (tmp_path / "kustomization.yaml").write_text("resources: [list.json]\n")
    (tmp_path / "README.md").write_text("no manifest")
    (tmp_path / ".git" / "three.yaml").write_text("nonsense")
    found = manifests.read([str(tmp_path)])
    assert [(each.kind, each.namespace, each.name) for each in found] == [
        ("Namespace", "", "one"),
        ("Namespace", "", "two"),
        ("Deployment", "shop", "web"),
    ]
    assert found[0].source == str(tmp_path / "below" / "one.yml")


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(ONE.encode())))
    assert [each.name for each in manifests.read(["-"])] == ["one"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is no YAML"),
        ("- one\n- two\n", "has no kind"),
        ("kind: Namespace\nmetadata: {name: one}\n", "a Namespace has no apiVersion"),
        ("apiVersion: v1\nkind: Namespace\n", "a Namespace has no name"),
        ("apiVersion: v1\nkind: Namespace\nmetadata: {name: 1}\n", "a Namespace has no name"),
        (f"{ONE}---\n{ONE}", "Namespace one is in"),
        ("!!python/object:os.system {}", "is no YAML"),
    ],
)
def test_what_is_no_manifest_is_named_with_its_file(tmp_path: Path, text: str, told: str):
    path = tmp_path / "odd.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told) as caught:
        manifests.read([str(path)])
    assert str(path) in str(caught.value)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"cannot read .*nowhere: No such file"):
        manifests.read([str(tmp_path / "nowhere")])


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(manifests, "MOST", len(ONE) + 1)
    (tmp_path / "one.yaml").write_text(ONE)
    manifests.read([str(tmp_path)])
    (tmp_path / "two.yaml").write_text(TWO)
    with pytest.raises(ConfigError, match="more than"):
        manifests.read([str(tmp_path)])


def test_settings_of_a_host_are_no_manifest(tmp_path: Path):
    (tmp_path / "one.yaml").write_text(ONE)
    (tmp_path / "liqod.toml").write_text("[provider]\n")
    (tmp_path / "pyproject.toml").write_text("[tool]\n")
    own = tmp_path / "liqod.toml"
    assert [each.name for each in manifests.read([str(tmp_path)])] == ["one"]
    assert manifests.settings([str(tmp_path)]) == [(str(own), b"[provider]\n")]
    other = tmp_path / "pyproject.toml"
    assert manifests.read([str(other)]) == []
    assert [source for source, _ in manifests.settings([str(other), "-"])] == [str(other)]
