"""Reads manifests, as ``kubectl apply -f`` would be given them: files, folders, standard input."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from liqod.errors import ConfigError
from liqod.model.text import printable

Json = dict[str, Any]

ENDINGS: Final = (".yaml", ".yml", ".json")
"""Of the files of a folder that are read."""
TOML: Final = ".toml"
NO_OBJECTS: Final = frozenset(("kustomization.yaml", "kustomization.yml", "Kustomization"))
"""Files that list others; patches and generators of them are not carried out."""
SETTINGS: Final = "liqod.toml"
"""The file of a folder that has the daemon's settings; a named file may have another name."""
STANDARD_INPUT: Final = "-"
MOST: Final = 64 << 20
"""Bytes of all manifests together."""


class Manifest(msgspec.Struct, frozen=True):
    """One object as it is written.

    Attributes:
        body: the object.
        source: the file that it is in.
    """

    body: Json
    source: str

    @property
    def api_version(self) -> str:
        """Its ``apiVersion``."""
        return str(self.body["apiVersion"])

    @property
    def kind(self) -> str:
        """Its ``kind``."""
        return str(self.body["kind"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.body["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Its namespace; empty where it names none."""
        return str(self.body["metadata"].get("namespace") or "")


def read(places: list[str]) -> list[Manifest]:
    """The manifests of files and folders, each once.

    Raises:
        ConfigError: one cannot be read, is no object, or is there twice.
    """
    found: dict[tuple[str, str, str, str], Manifest] = {}
    for source, text in _texts(places):
        for each in _objects(source, text):
            group = each.api_version.rpartition("/")[0]
            key = (group, each.kind, each.namespace, each.name)
            if key in found:
                told = f"{each.kind} {each.name} is in {found[key].source} and in {source}"
                raise ConfigError(f"{told}: the one that is applied last would win")
            found[key] = each
    return list(found.values())


def settings(places: list[str]) -> list[tuple[str, bytes]]:
    """The files with settings of a daemon on a host, among the same places: path and text.

    Raises:
        ConfigError: one cannot be read.
    """
    return list(_texts(places, toml=True))


def _texts(places: list[str], *, toml: bool = False) -> Iterator[tuple[str, bytes]]:
    room = MOST
    for place in places:
        for source, text in _of_place(place, toml=toml):
            room -= len(text)
            if room < 0:
                raise ConfigError(f"the manifests have more than {MOST >> 20} MiB")
            yield source, text


def _of_place(place: str, *, toml: bool) -> Iterator[tuple[str, bytes]]:
    if place == STANDARD_INPUT:
        if not toml:
            yield "standard input", sys.stdin.buffer.read(MOST + 1)
        return
    path = Path(place)
    try:
        files = sorted(_files(path)) if path.is_dir() else [path]
        for each in files:
            if (each.suffix == TOML) == toml:
                yield str(each), each.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {error.filename or place}: {error.strerror}") from error


def _files(folder: Path) -> Iterator[Path]:
    """The files of a folder and those below it; hidden ones are passed over."""
    for each in folder.iterdir():
        if each.name.startswith("."):
            continue
        if each.is_dir():
            yield from _files(each)
        elif each.name == SETTINGS or (each.suffix in ENDINGS and each.name not in NO_OBJECTS):
            yield each


def _objects(source: str, text: bytes) -> Iterator[Manifest]:
    try:
        documents = list(yaml.safe_load_all(text))
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(
            f"{source} is no YAML: {printable(' '.join(str(error).split()))}"
        ) from error
    for document in documents:
        if document is not None:
            yield from _flat(source, document)


def _flat(source: str, document: Any) -> Iterator[Manifest]:
    """An object, or those of a List."""
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        raise ConfigError(f"{source}: a document has no kind, so it is no manifest")
    kind = document["kind"]
    if not isinstance(document.get("apiVersion"), str):
        raise ConfigError(f"{source}: a {kind} has no apiVersion")
    items = document.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for each in items:
            yield from _flat(source, each)
        return
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise ConfigError(f"{source}: a {kind} has no name")
    yield Manifest(document, source)
