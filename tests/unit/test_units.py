"""The systemd units: good by systemd's own judgement, and agreeing with the daemon."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from liqod.config import ENVIRONMENT
from liqod.network.dataplane.kernel import capabilities
from liqod.runtime.account import NODE_SHARES, SHARES, places_of
from liqod.shutdown import GRACE

FOLDER = Path(__file__).parents[2] / "systemd"
NODE = FOLDER / "liqod-node.service"
GATEWAY = FOLDER / "liqod-gateway.conf"
DAEMONS = [FOLDER / "liqod.service", FOLDER / "liqod@.service"]
UNITS = sorted(FOLDER.glob("*.service"))
STEPS = Path(__file__).parents[2] / "docs" / "how-to" / "systemd.md"


MOUNTS = (
    *("ProtectSystem", "ProtectHome", "ProtectHostname", "ProtectControlGroups"),
    *("ProtectKernelLogs", "ProtectKernelModules", "ProtectKernelTunables"),
    *("PrivateTmp", "PrivateDevices", "PrivateIPC", "PrivateMounts"),
)
"""Each makes a mount namespace, with which the names of network namespaces would be lost."""


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_finds_nothing_wrong(unit: Path, tmp_path: Path):
    # The program is not where a package puts it, so the copy that is verified names another.
    text = unit.read_text().replace("ExecStart=/opt/liqod/bin/liqod", "ExecStart=/bin/true")
    name = unit.name.replace("@", "@rome")
    (tmp_path / name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if name in line]
    assert (done.returncode, complaints) == (0, [])


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_waits_longer_than_the_daemon_needs(unit: Path):
    stop = re.search(r"^TimeoutStopSec=(\d+)$", unit.read_text(), re.M)
    assert stop is not None
    assert int(stop[1]) > 10 > GRACE


def test_both_units_are_hardened_alike():
    texts = (unit.read_text() for unit in DAEMONS)
    one, many = ({line for line in text.splitlines() if "=" in line} for text in texts)
    keys = {line.split("=")[0] for line in one ^ many}
    assert keys <= {
        "Description",
        "ExecStart",
        "LoadCredential",
        "RuntimeDirectory",
        "ConditionPathExists",
        "User",
        "Environment",
    }


def test_each_of_several_clusters_has_a_user_and_a_folder_that_both_its_units_know():
    daemon, node = (FOLDER / name for name in ("liqod@.service", "liqod-node@.service"))
    [user] = re.findall(r"^User=(\S+)$", daemon.read_text(), re.M)
    folder = "Environment=LIQOD_MACHINE=/run/liqod-node-%i"
    assert "%i" in user
    assert folder in daemon.read_text().splitlines()
    assert {folder, f"Environment=LIQOD_DAEMON_USER={user}"} <= set(node.read_text().splitlines())
    known = {key for key in ENVIRONMENT if f"Environment={key}=" in node.read_text()}
    assert known == {"LIQOD_KUBECONFIG", "LIQOD_MACHINE", "LIQOD_DAEMON_USER"}


def test_a_gateways_unit_of_several_has_what_the_drop_in_gives():
    text = (FOLDER / "liqod-node@.service").read_text()
    said = [line.partition("=") for line in text.splitlines() if "=" in line]
    last = {key: value for key, _, value in said}
    assert not any(last.get(key, "no") != "no" for key in MOUNTS)
    assert not {"LoadCredential", "DynamicUser"} & set(last)
    dropped = [line.partition("=") for line in GATEWAY.read_text().splitlines() if "=" in line]
    given = {key: value for key, _, value in dropped if not key.startswith("#")}
    for key in (
        "CapabilityBoundingSet",
        "KillMode",
        "DeviceAllow",
        "SystemCallFilter",
        "MemoryMax",
    ):
        assert last[key] == given[key], key
    assert last["RestrictNamespaces"] == given["RestrictNamespaces"]


def kubeconfigs(text: str) -> list[str]:
    """Those that a unit reads, as a credential or as root."""
    return re.findall(
        r"^(?:LoadCredential=kubeconfig:|Environment=LIQOD_KUBECONFIG=)(/\S+)$", text, re.M
    )


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_without_its_kubeconfig_a_unit_does_not_start(unit: Path):
    text = unit.read_text()
    assert re.findall(r"^ConditionPathExists=(\S+)$", text, re.M) == kubeconfigs(text)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_each_path_that_a_unit_names_is_made_by_a_step_of_the_documentation(unit: Path):
    text = unit.read_text()
    (command,) = re.findall(r"^ExecStart=(.+)$", text, re.M)
    named = [word for word in command.split() if word.startswith("/")]
    wanted = {path.replace("%i", "rome") for path in (*named, *kubeconfigs(text))}
    steps = [shlex.split(line.strip()) for line in STEPS.read_text().splitlines() if "sudo" in line]
    made = {words[-1] for words in steps if words[:2] in (["sudo", "install"], ["sudo", "ln"])}
    (environment,) = (words[-1] for words in steps if words[1:4] == ["python3", "-m", "venv"])
    made |= {f"{environment}/bin/liqod", f"{environment}/bin/pip"}
    assert wanted <= made
    assert f"/etc/systemd/system/{unit.name}" in made
    sources = {words[-2] for words in steps if words[:2] == ["sudo", "install"]}
    assert f"systemd/{unit.name}" in sources
    name = unit.name.removesuffix(".service").replace("@", "@rome")
    assert ["sudo", "systemctl", "enable", "--now", name] in steps


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_a_unit_leaves_little_open():
    done = subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=yes",
            "--threshold=15",
            "--no-pager",
            DAEMONS[0],
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_the_gateways_drop_in_is_understood(tmp_path: Path):
    program = "ExecStart=/opt/liqod/bin/liqod"
    unit = tmp_path / "liqod-node.service"
    unit.write_text(NODE.read_text().replace(program, "ExecStart=/bin/true"))
    (tmp_path / "liqod-node.service.d").mkdir()
    shutil.copy(GATEWAY, tmp_path / "liqod-node.service.d" / "gateway.conf")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    complaints = [line for line in done.stderr.splitlines() if "liqod" in line or "gateway" in line]
    assert (done.returncode, complaints) == (0, [])


def test_the_gateway_has_no_mount_namespace_and_what_networks_need():
    """The drop-in gives exactly the rights that `capabilities.look` asks for."""
    said = [line.partition("=") for line in GATEWAY.read_text().splitlines() if "=" in line]
    last = {key: value for key, _, value in said if not key.startswith("#")}
    assert all(last[key] == "no" for key in MOUNTS)
    set_so = {line.partition("=")[0] for line in NODE.read_text().splitlines() if "=" in line}
    makers = re.compile(r"(Protect|Private|Proc|Dynamic|Load)")
    left = {key for key in set_so if makers.match(key)} - set(last)
    assert left == {"ProtectClock"}, "this one makes none"
    for right in capabilities.RIGHTS.values():
        assert right in last["CapabilityBoundingSet"].split()
    # By these the process of the websockets becomes a user of its own, and is ended.
    # The socket is given to the daemon's group.
    for right in ("CAP_NET_BIND_SERVICE", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_CHOWN"):
        assert right in last["CapabilityBoundingSet"].split()
    assert str(capabilities.TUN) in last["DeviceAllow"]
    assert "AF_NETLINK" in last["RestrictAddressFamilies"]
    assert "@mount" in last["SystemCallFilter"]
    assert last["RestrictNamespaces"] == "net"
    assert last["KillMode"] == "process"


def test_a_node_has_two_capabilities_and_is_not_root():
    """The same with which a test of real packets runs it (tests/netns/test_liqod_node.py)."""
    lines = NODE.read_text().splitlines()
    for where in ("CapabilityBoundingSet", "AmbientCapabilities"):
        assert f"{where}=CAP_NET_ADMIN CAP_NET_RAW" in lines
    assert "DynamicUser=yes" in lines
    assert "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK" in lines
    # Sysctls are read there.
    assert not any(line.startswith("ProcSubset=pid") for line in lines)


def test_no_crash_leaves_its_memory_on_a_disk():
    for unit in UNITS:
        assert "LimitCORE=0" in unit.read_text().splitlines()


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_each_unit_has_as_many_files(unit: Path):
    assert "LimitNOFILE=524288" in unit.read_text().splitlines()


@pytest.mark.parametrize("unit", DAEMONS, ids=lambda path: path.name)
def test_a_daemon_has_files_and_memory_for_all_places(unit: Path):
    text = unit.read_text()
    files = re.search(r"^LimitNOFILE=(\d+)$", text, re.M)
    memory = re.search(r"^MemoryMax=(\d+)G$", text, re.M)
    assert files is not None
    assert memory is not None
    for share in (*SHARES.values(), *NODE_SHARES.values()):
        assert places_of(share, int(files[1]), int(memory[1]) << 30)[0] == share.most, share
