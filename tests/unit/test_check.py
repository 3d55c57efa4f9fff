"""``liqod check`` says before the daemon starts what it would lack on this host."""

import socket
from pathlib import Path

import pytest

from liqod.cli.app import main


def test_a_host_without_nft_is_named_before_networks_are_to_be_joined(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["check"]) == 0
    said = capsys.readouterr()
    assert "run by this user it would join no networks: no liqod node answers at " in said.err
    assert "the program nft (package nftables)" in said.err
    path = tmp_path / "liqod.toml"
    path.write_text("[network]\nenabled = false\n")
    assert main(["check", "--config", str(path)]) == 0
    assert "networks" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "table",
    [
        "[webhook]\nhost = '127.0.0.1'\nport = {port}",
        "[kubelet]\nlisten = '127.0.0.1'\nport = {port}",
        "[health]\nport = {port}",
        "[inspector]\nhost = '127.0.0.1'\nport = {port}\ncert_file = 'a'\nkey_file = 'b'",
    ],
    ids=["webhook.port", "kubelet.port", "health.port", "inspector.port"],
)
def test_a_port_that_is_taken_is_named_with_its_setting(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    request: pytest.FixtureRequest,
    table: str,
):
    setting = request.node.callspec.id
    path = tmp_path / "liqod.toml"
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        path.write_text(table.format(port=port))
        assert main(["check", "--config", str(path)]) == 0
        said = capsys.readouterr().err
        assert f"on this host it would not start: port {port} is taken" in said
        assert f": set {setting} to another" in said
    assert main(["check", "--config", str(path)]) == 0
    assert f"port {port}" not in capsys.readouterr().err


def test_the_candidates_port_is_that_of_liqod_node(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    path = tmp_path / "liqod.toml"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        table = f"candidates = 'all'\ncandidate_port = {port}\nmachine = '{tmp_path}/none'"
        path.write_text(f"[network]\n{table}")
        assert main(["check", "--config", str(path)]) == 0
        said = capsys.readouterr().err
    assert f"on this host `liqod node` could be no candidate: port {port} is taken" in said
    assert "set network.candidate_port to another" in said
    assert f"would not start: port {port}" not in said
    assert main(["check", "--config", str(path)]) == 0
    assert f"port {port}" not in capsys.readouterr().err


def test_a_kubeconfig_that_is_missing_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path, kubeconfig = tmp_path / "liqod.toml", tmp_path / "rome.kubeconfig"
    path.write_text(f"[cluster]\nkubeconfig = '{kubeconfig}'")
    assert main(["check", "--config", str(path)]) == 0
    said = capsys.readouterr().err
    assert f"the kubeconfig {kubeconfig} does not exist: see docs/how-to/systemd.md" in said
    kubeconfig.write_text("")
    assert main(["check", "--config", str(path)]) == 0
    assert "kubeconfig" not in capsys.readouterr().err
