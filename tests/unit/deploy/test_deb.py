"""What a package for Debian holds and says of itself, made of wheels that hold next to nothing."""

import io
import lzma
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from deploy import deb, environment, lock, wheels
from deploy.archives import AR_HEAD
from deploy.outcome import Unbuildable, Undownloadable

EPOCH = 1_700_000_000
SITE = "./usr/lib/liqod/lib/python3.11/site-packages"
HERE = deb.Package("bookworm", "amd64")


def write_wheel(file: Path, *names: str) -> Path:
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, name)
    return file


def assemble(folder: Path, package: deb.Package = HERE) -> bytes:
    """A package of liqod's wheel and another."""
    page = "liqod-1.data/data/share/man/man1/liqod.1"
    own = write_wheel(folder / "liqod-1-py3-none-any.whl", "liqod/daemon.py", page)
    data = "other-1.data/platlib/native.so"
    other = write_wheel(folder / "other.whl", "other/x.py", "other/tests/test_x.py", data)
    return deb.assemble(package, own, [other], EPOCH)


def members(package: bytes) -> dict[str, bytes]:
    """What an ar archive holds, in its order."""
    assert package.startswith(AR_HEAD)
    found, at = {}, len(AR_HEAD)
    while at < len(package):
        head = package[at : at + 60].decode()
        assert head.endswith("`\n")
        name, size = head[:16].strip(), int(head[48:58])
        found[name] = package[at + 60 : at + 60 + size]
        at += 60 + size + size % 2
    return found


def packed(package: bytes, part: str) -> dict[str, tuple[tarfile.TarInfo, str]]:
    """The entries of a part of a package, in their order, with the text of each file."""
    written = io.BytesIO(lzma.decompress(members(package)[f"{part}.tar.xz"]))
    with tarfile.open(fileobj=written) as archive:
        found = {}
        for each in archive.getmembers():
            file = archive.extractfile(each) if each.isfile() else None
            found[each.name] = (each, file.read().decode(errors="replace") if file else "")
        return found


def control(package: bytes) -> dict[str, str]:
    """The fields of a package."""
    lines = packed(package, "control")["./control"][1].splitlines()
    return dict(each.split(": ", 1) for each in lines if not each.startswith(" "))


def test_the_same_wheels_give_the_same_bytes(tmp_path: Path):
    made = assemble(tmp_path)
    assert made == assemble(tmp_path)
    assert list(members(made)) == ["debian-binary", "control.tar.xz", "data.tar.xz"]
    for part in ("control", "data"):
        for each, _ in packed(made, part).values():
            assert (each.mtime, each.uid, each.gid, each.uname) == (EPOCH, 0, 0, "root")


def test_modules_lie_in_an_environment_of_their_own_and_tests_of_others_nowhere(tmp_path: Path):
    found = packed(assemble(tmp_path), "data")
    modules = {name for name in found if name.startswith(f"{SITE}/") and found[name][0].isfile()}
    assert modules == {f"{SITE}/{each}" for each in ("liqod/daemon.py", "other/x.py", "native.so")}
    assert "home = /usr/bin\n" in found["./usr/lib/liqod/pyvenv.cfg"][1]
    assert found["./usr/lib/liqod/bin/python3"][0].linkname == "../../../bin/python3"


def test_each_folder_comes_before_what_is_in_it(tmp_path: Path):
    seen = set()
    for name, (each, _) in packed(assemble(tmp_path), "data").items():
        assert name == "." or name.rpartition("/")[0] in seen
        if each.isdir():
            seen.add(name)


def test_programs_pages_completions_and_units_are_where_debian_looks(tmp_path: Path):
    found = packed(assemble(tmp_path), "data")
    for name in environment.PROGRAMS:
        assert found[f"./usr/bin/{name}"][0].linkname == f"../lib/liqod/bin/{name}"
        program, text = found[f"./usr/lib/liqod/bin/{name}"]
        assert program.mode == 0o755
        assert text.startswith("#!/usr/lib/liqod/bin/python3 -I\n")
        assert f"./usr/share/man/man1/{name}.1.gz" in found
    for shell, path in deb.COMPLETIONS.items():
        assert "liqod" in found[f"./{path}"][1], shell
    for each in deb.UNITS.glob("*.service"):
        unit = found[f"./usr/lib/systemd/system/{each.name}"][1]
        assert "\nExecStart=/usr/bin/liqod " in unit
        assert "/opt/" not in unit


def test_every_configuration_is_a_conffile_and_everything_else_has_its_sum(tmp_path: Path):
    made = assemble(tmp_path)
    data, parts = packed(made, "data"), packed(made, "control")
    files = {name[2:] for name, (each, _) in data.items() if each.isfile()}
    named = {line.split("  ")[1] for line in parts["./md5sums"][1].splitlines()}
    assert parts["./conffiles"][1] == "/etc/liqod/liqod.toml\n"
    assert named == files - {"etc/liqod/liqod.toml"}
    for script in deb.SCRIPTS:
        assert parts[f"./{script}"][0].mode == 0o755


@pytest.mark.parametrize(
    ("package", "version", "python"),
    [
        (HERE, "0.9+deb12", "python3 (>= 3.11~), python3 (<< 3.12~)"),
        (deb.Package("trixie", "arm64"), "0.9+deb13", "python3 (>= 3.13~), python3 (<< 3.14~)"),
    ],
    ids=["bookworm", "trixie"],
)
def test_it_asks_for_the_python_of_its_release(
    tmp_path: Path, package: deb.Package, version: str, python: str
):
    package = package._replace(version="0.9")
    fields = control(assemble(tmp_path, package))
    assert (fields["Version"], fields["Architecture"]) == (version, package.architecture)
    assert fields["Depends"].startswith(python)
    assert package.file == f"liqod_{version}_{package.architecture}.deb"


def test_dpkg_refuses_the_package_for_another_machine(tmp_path: Path):
    here = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, check=True)
    others = [each for each in deb.ARCHITECTURES if each != here.stdout.decode().strip()]
    package = HERE._replace(architecture=others[0])
    file = tmp_path / package.file
    file.write_bytes(assemble(tmp_path, package))
    refused = subprocess.run(
        ["dpkg", "--simulate", "--force-not-root", "--install", file],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"},
    )
    assert refused.returncode != 0
    assert f"package architecture ({others[0]}) does not match system" in refused.stderr


@pytest.mark.parametrize("script", deb.SCRIPTS)
def test_a_shell_reads_each_script(script: str):
    subprocess.run(["sh", "-n", deb.WRITTEN / script], check=True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["sid", "amd64"],
            "there is no package for sid: name one by RELEASE=, of bookworm, trixie",
        ),
        (["trixie", "mips"], "there is no package for mips: name one by ARCH=, of amd64, arm64"),
    ],
)
def test_what_there_is_no_package_for_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
):
    assert deb.main([str(tmp_path / "dist"), *words]) == 1
    assert capsys.readouterr().err == f"deb: {said}\n"
    assert not (tmp_path / "dist").exists()


def test_on_another_system_a_release_has_to_be_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(deb, "here", lambda: ("", "amd64"))
    with pytest.raises(Unbuildable, match="no package for this machine: name one by RELEASE="):
        deb.chosen()
    assert deb.chosen("trixie") == deb.Package("trixie", "amd64")


def test_wheels_that_cannot_be_had_are_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def refuse(_: lock.Target) -> list[Path]:
        raise Undownloadable("PyPI is away")

    monkeypatch.setattr(lock, "wheels", refuse)
    assert deb.main([str(tmp_path / "dist"), "bookworm", "amd64"]) == 1
    assert capsys.readouterr().err == "deb: PyPI is away\n"


def test_the_file_is_named_with_its_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """The date is that of liqod's source distribution."""

    def build(folder: Path) -> list[Path]:
        source = folder / "liqod-1.tar.gz"
        with tarfile.open(source, "w:gz") as archive:
            entry = tarfile.TarInfo("liqod-1")
            entry.mtime = EPOCH
            archive.addfile(entry)
        return [source, write_wheel(folder / "liqod-1-py3-none-any.whl", "liqod/daemon.py")]

    monkeypatch.setattr(lock, "wheels", lambda _: [])
    monkeypatch.setattr(wheels, "make", build)
    assert deb.main([str(tmp_path / "dist"), "bookworm", "amd64"]) == 0
    digest, file = capsys.readouterr().out.split()
    assert Path(file) == tmp_path / "dist" / HERE.file
    assert len(digest) == 64
    entries = packed(Path(file).read_bytes(), "data").values()
    assert {each.mtime for each, _ in entries} == {EPOCH}
