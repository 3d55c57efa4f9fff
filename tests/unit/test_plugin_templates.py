"""The packages that `liqod plugins new` writes; those of `examples/plugins` are just these."""

import ast
from pathlib import Path

import pytest

from liqod.cli import app, plugintemplate

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
WRITTEN = {
    "reflector": "lamps",
    "discovery": "hosts",
    "check": "kubernetes-version",
    "network": "rope",
}
LEFTOVERS = ("__pycache__", ".egg-info", ".hypothesis", ".ruff_cache", ".mypy_cache")


def files(folder: Path) -> dict[str, str]:
    """The texts of a folder, by path."""
    return {
        str(each.relative_to(folder)): each.read_text()
        for each in folder.rglob("*")
        if each.is_file() and not any(part.endswith(LEFTOVERS) for part in each.parts)
    }


def test_there_is_an_example_of_every_kind() -> None:
    assert WRITTEN.keys() == plugintemplate.ABOUT.keys()
    assert {each.name for each in EXAMPLES.iterdir()} == set(WRITTEN.values())


@pytest.mark.parametrize("kind", WRITTEN)
def test_the_example_is_what_the_command_writes(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = WRITTEN[kind]
    folder = tmp_path / "made"
    assert app.main(["plugins", "new", kind, name, "--output", str(folder)]) == 0
    made = files(folder)
    assert made == files(EXAMPLES / name), f"run `liqod plugins new {kind} {name}`"
    assert capsys.readouterr().out.split() == sorted(str(folder / each) for each in made)


@pytest.mark.parametrize("kind", WRITTEN)
def test_a_name_of_several_words_makes_names_of_code(kind: str) -> None:
    made = plugintemplate.package(kind, "street-lamps")
    assert "liqod_street_lamps/plugin.py" in made
    assert 'street-lamps = "liqod_street_lamps"' in made["pyproject.toml"]
    for path, text in made.items():
        if path.endswith(".py"):
            ast.parse(text)
            assert not any(len(line) > 100 for line in text.splitlines())


def test_it_is_written_beside_the_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert app.main(["plugins", "new", "check", "oldest"]) == 0
    assert (tmp_path / "liqod-oldest" / "pyproject.toml").exists()


@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("lamp", "lamps", "there is reflector, discovery, check, network"),
        ("check", "Versions", "small letters, digits and dashes"),
        ("check", "../versions", "small letters, digits and dashes"),
        ("check", "v" * 41, "small letters, digits and dashes"),
        ("check", "there", "liqod-there is there already"),
    ],
)
def test_a_mistake_writes_nothing(
    kind: str,
    name: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "liqod-there").mkdir()
    assert app.main(["plugins", "new", kind, name]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert [each.name for each in tmp_path.rglob("*")] == ["liqod-there"]
