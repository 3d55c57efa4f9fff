"""What images hold and say of themselves, made of packages and wheels that hold next to nothing."""

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from deploy import environment, image, lock, packages, wheels
from deploy.archives import Content, ar, tar_xz, text
from liqod.install.workload import OF_NODES
from tests.unit.deploy.test_deb import EPOCH, write_wheel

SITE = "./usr/lib/liqod/lib/python3.11/site-packages"
Entries = dict[str, tuple[tarfile.TarInfo, bytes]]


class Uncompiled:
    """In place of Debian's Python: one file for each module."""

    def __init__(self, *_: object) -> None:
        pass

    def compiled(self, files: dict[str, Content]) -> dict[str, Content]:
        return {f"{name}c": Content(b"") for name in files if name.endswith(".py")}


@pytest.fixture(autouse=True)
def no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image, "Compiler", Uncompiled)
    monkeypatch.setattr(image, "_python", list)
    monkeypatch.setattr(wheels, "revision", lambda: "0123abc")


def write_package(folder: Path, name: str, *files: str) -> Path:
    """A package of Debian's."""
    control = f"Package: {name}\nVersion: 1:2+b3\nArchitecture: amd64\nDescription: a\n more: b\n"
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": tar_xz({"control": text(control)}, 0),
        "data.tar.xz": tar_xz({each: text(f"{each}\n") for each in files}, 0),
    }
    made = folder / f"{name}.deb"
    made.write_bytes(ar(members, 0))
    return made


def parts(folder: Path) -> image.Parts:
    trusted = [f"usr/share/ca-certificates/{name}.crt" for name in ("b", "a")]
    return image.Parts(
        [
            write_package(folder, "libc6", "lib/libc.so.6", "usr/share/man/man1/x.1", *trusted),
            write_package(folder, "python", "usr/bin/python3.11", "usr/lib/python3.11/os.py"),
        ],
        [write_package(folder, "nftables", "sbin/nft", "usr/share/doc/nftables/copyright")],
        [write_wheel(folder / "other-1-py3-none-any.whl", "other/x.py", "other/tests/test_x.py")],
        write_wheel(folder / "liqod-1-py3-none-any.whl", "liqod/daemon.py"),
    )


def write(folder: Path, given: image.Parts, target: str = "made") -> list[Path]:
    made = image.layers(given, EPOCH)
    return image.written(folder / target, "arm64", given, made, EPOCH)


def blobs(file: Path) -> dict[str, bytes]:
    """The blobs and files of an image's archive."""
    with tarfile.open(file) as archive:
        found = {}
        for each in archive:
            if each.isfile():
                opened = archive.extractfile(each)
                assert opened is not None
                found[each.name.removeprefix("./")] = opened.read()
        return found


def read(file: Path) -> tuple[dict[str, Any], dict[str, Any], list[Entries]]:
    """The entry in the index, the configuration and the layers of an image."""
    found = blobs(file)
    [entry] = json.loads(found["index.json"])["manifests"]

    def blob(described: dict[str, Any]) -> bytes:
        data = found[f"blobs/{described['digest'].replace(':', '/')}"]
        assert len(data) == described["size"]
        return data

    manifest = json.loads(blob(entry))
    layers = []
    for each in manifest["layers"]:
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(blob(each)))) as layer:
            held = ((one, layer.extractfile(one) if one.isfile() else None) for one in layer)
            layers.append({one.name: (one, data.read() if data else b"") for one, data in held})
    return entry, json.loads(blob(manifest["config"])), layers


def test_the_same_parts_give_the_same_bytes(tmp_path: Path):
    given = parts(tmp_path)
    first, second = write(tmp_path, given), write(tmp_path, given, "again")
    assert [each.name for each in first] == [each.name for each in second]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_the_image_of_nodes_has_what_joined_networks_need_and_the_daemons_has_not(tmp_path: Path):
    daemon, _, node, _ = write(tmp_path, parts(tmp_path))
    more, less = read(node), read(daemon)
    assert [name for layer in more[2] if "./usr/sbin/nft" in layer for name in layer]
    assert not [name for layer in less[2] for name in layer if "nft" in name]
    assert len(more[2]) == len(less[2]) + 1
    for entry, ending in ((more[0], OF_NODES), (less[0], "")):
        assert entry["annotations"]["io.containerd.image.name"] == f"{image.NAME}{ending}"
        assert entry["platform"] == {"architecture": "arm64", "os": "linux"}


def test_nobody_runs_it_and_nothing_else_than_liqod(tmp_path: Path):
    _, config, layers = read(write(tmp_path, parts(tmp_path))[0])
    assert config["config"]["User"] == "65532:65532"
    assert config["config"]["Entrypoint"] == ["liqod"]
    assert config["config"]["Labels"]["org.opencontainers.image.revision"] == "0123abc"
    for layer in layers:
        for entry, _ in layer.values():
            assert (entry.uid, entry.gid, entry.mtime) == (0, 0, EPOCH)
            assert entry.issym() or entry.name == "./tmp" or not entry.mode & 0o022
    assert b":65532:65532:" in layers[0]["./etc/passwd"][1]


def test_modules_have_their_bytecode_and_pages_and_tests_are_left_out(tmp_path: Path):
    _, _, layers = read(write(tmp_path, parts(tmp_path))[2])
    names = {name for layer in layers for name in layer}
    for module in (f"{SITE}/other/x.py", f"{SITE}/liqod/daemon.py", "./usr/lib/python3.11/os.py"):
        assert {module, f"{module}c"} <= names
    assert not [each for each in names if "tests" in each or "/man/" in each]
    assert "./usr/share/doc/nftables/copyright" in names


def test_scanners_and_tls_find_what_they_look_for(tmp_path: Path):
    _, _, layers = read(write(tmp_path, parts(tmp_path))[2])
    bundle = layers[0]["./etc/ssl/certs/ca-certificates.crt"][1]
    trusted = b"usr/share/ca-certificates/"
    assert bundle == trusted + b"a.crt\n" + trusted + b"b.crt\n"
    assert layers[0]["./usr/lib/ssl/cert.pem"][0].linkname == "/etc/ssl/certs/ca-certificates.crt"
    assert b"Package: libc6\n" in layers[0]["./var/lib/dpkg/status.d/libc6"][1]
    assert b"Package: nftables\n" in layers[-1]["./var/lib/dpkg/status.d/nftables"][1]
    assert layers[0]["./lib"][0].linkname == "usr/lib"
    assert "./lib64" not in layers[0]


def test_the_list_names_every_package_with_its_hash(tmp_path: Path):
    _, other, _, file = write(tmp_path, parts(tmp_path))
    found = json.loads(file.read_text())
    image_itself, *packed = found["packages"]
    urls = [each["externalRefs"][0]["referenceLocator"] for each in packed]
    assert urls[2:] == [
        "pkg:deb/debian/nftables@1%3A2%2Bb3?arch=amd64&distro=debian-12",
        "pkg:pypi/other@1",
        "pkg:pypi/liqod@1",
    ]
    assert image_itself["name"] == "liqod-node"
    contained = [each["relatedSpdxElement"] for each in found["relationships"][1:]]
    assert contained == [each["SPDXID"] for each in packed]
    assert "nftables" not in other.read_text()


def test_the_page_on_plugins_names_the_folder_of_packages():
    page = (wheels.ROOT / "docs/reference/plugins.md").read_text()
    assert f"COPY plugin /{environment.site(image.PYTHON)}\n" in page


def test_wheels_that_somebody_adds_come_last(tmp_path: Path):
    gadgets = write_wheel(tmp_path / "gadgets-2-py3-none-any.whl", "gadgets.py")
    given = parts(tmp_path)._replace(plugins=[gadgets])
    joined, listed, *_ = write(tmp_path, given)
    assert f"{SITE}/gadgets.py" in read(joined)[2][-1]
    assert "pkg:pypi/gadgets@2" in listed.read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mips"], "there is no image for mips: name one by ARCH=, of amd64, arm64"),
        (["amd64", "x.whl"], "there is no wheel x.whl: build or download it, and name its file"),
    ],
)
def test_what_there_is_no_image_for_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    said: str,
):
    def build(folder: Path) -> list[Path]:
        source = folder / "liqod-1.tar.gz"
        tarfile.open(source, "w:gz").close()
        about = "liqod-1.dist-info/METADATA"
        return [source, write_wheel(folder / "liqod-1-py3-none-any.whl", about)]

    monkeypatch.setattr(wheels, "make", build)
    monkeypatch.setattr(lock, "wheels", lambda _: [])
    monkeypatch.setattr(packages, "packages", lambda *_: pytest.fail("nothing is downloaded"))
    assert image.main([str(tmp_path / "dist"), *words]) == 1
    assert capsys.readouterr().err == f"image: {said}\n"
    assert not (tmp_path / "dist").exists()
