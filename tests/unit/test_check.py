"""``liqod check`` says before the daemon starts what it would lack on this host."""

from pathlib import Path

import pytest

from liqod.cli.app import main


def test_a_host_without_nft_is_named_before_networks_are_to_be_joined(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["check"]) == 0
    said = capsys.readouterr()
    assert "run by this user it would join no networks: missing: " in said.err
    assert "the program nft (package nftables)" in said.err
    path = tmp_path / "liqod.toml"
    path.write_text("[network]\nenabled = false\n")
    assert main(["check", "--config", str(path)]) == 0
    assert "networks" not in capsys.readouterr().err
