"""The daemons that ``liqod top`` looks at."""

from __future__ import annotations

from pathlib import Path

import pytest

from liqod.model.view.whereabouts import patterns
from tui.__main__ import Mistake, found, main, ordered


def placed(path: Path) -> Path:
    """A file that is there as a socket would be."""
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return path


def looked(run: Path, environ: dict[str, str]) -> list[str]:
    """The patterns that are looked for in an environment, in a folder that stands for ``/run``."""
    return [each.replace("/run/", f"{run}/", 1) for each in patterns(environ)]


def test_every_daemon_of_this_host_is_found_once(tmp_path: Path):
    rome = placed(tmp_path / "liqod" / "rome.sock")
    own = placed(tmp_path / "liqod-milan" / "milan.sock")
    template = placed(tmp_path / "liqod-turin" / "turin.sock")
    environ = {"RUNTIME_DIRECTORY": "/run/liqod-milan", "XDG_RUNTIME_DIR": "/run"}
    assert found(looked(tmp_path, environ)) == [own, rome, template]


def test_a_file_of_authorities_that_is_not_there_is_named(tmp_path: Path, capsys):
    missing = str(tmp_path / "ca.pem")
    assert main(["--url", "wss://rome:1", "--ca-file", missing]) == 2
    assert f"there is no {missing}" in capsys.readouterr().err


def test_where_none_is_found_it_says_what_is_known_of_it(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setattr("tui.__main__.patterns", lambda _: (f"{tmp_path}/*.sock",))
    assert main([], lambda: "it runs on rome-1: `liqod top` there") == 2
    assert f"no daemon's socket at {tmp_path}/*.sock: it runs on rome-1" in capsys.readouterr().err
    assert main([]) == 2
    assert "start `liqod run`" in capsys.readouterr().err


def test_where_none_is_found_it_says_where_it_looked(tmp_path: Path):
    with pytest.raises(Mistake, match=r"liqod-\*/\*\.sock") as caught:
        found(looked(tmp_path, {}))
    assert f"{tmp_path}/liqod/*.sock" in str(caught.value)


ROME, MILAN = Path("/run/liqod/rome.sock"), Path("/run/liqod/milan.sock")


def test_of_several_the_kubeconfig_s_is_shown_first_and_said():
    asked: list[tuple[Path | None, str]] = []

    def own(kubeconfig: Path | None, context: str) -> tuple[Path | None, str]:
        asked.append((kubeconfig, context))
        return ROME, ""

    said = "rome is shown first: the kubeconfig leads there"
    assert ordered([MILAN, ROME], None, "", own) == ([ROME, MILAN], said)
    assert ordered([MILAN, ROME], Path("k"), "c", own) == ([ROME, MILAN], said)
    assert asked == [(None, ""), (Path("k"), "c")]
    assert ordered([MILAN], None, "", own) == ([MILAN], "")
    assert len(asked) == 2, "nobody is asked where there is no choice"


def test_where_the_kubeconfig_s_is_not_here_the_first_by_name_is_shown_and_why():
    def own(kubeconfig: Path | None, context: str) -> tuple[Path | None, str]:
        return None, "no daemon of oslo has a socket here"

    found, said = ordered([MILAN, ROME], None, "", own)
    assert found == [MILAN, ROME]
    assert said == "milan is shown first, by its name: no daemon of oslo has a socket here"
    with pytest.raises(Mistake, match="no daemon of oslo"):
        ordered([MILAN], Path("oslo.kubeconfig"), "", own)
