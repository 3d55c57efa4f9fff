"""Looks at the program that this process runs: its versions, and how it was installed."""

import os
import platform
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from liqod import __version__
from liqod.model.view.programinfo import Origin, ProgramInfo
from liqod.runtime import sdnotify

NAME = "liqod"
MARKS = (Path("/.dockerenv"), Path("/run/.containerenv"))
"""Files that container engines put into their containers."""


def look() -> ProgramInfo:
    """The program of this process; reads files."""
    return ProgramInfo(
        version=__version__,
        python=f"{platform.python_implementation()} {platform.python_version()}",
        kernel=f"{platform.system()} {platform.release()}",
        machine=platform.machine(),
        system=_system(),
        dependencies=dependencies(_requirements()),
        origin=_origin(),
        unit=sdnotify.unit(),
        container=in_container(os.environ),
    )


def in_container(environ: Mapping[str, str], marks: Iterable[Path] = MARKS) -> bool:
    """True if a cluster or an engine marks this process as in one of its containers."""
    return "KUBERNETES_SERVICE_HOST" in environ or any(each.exists() for each in marks)


def dependencies(requirements: Iterable[str]) -> dict[str, str]:
    """The versions of the distributions that are required, but for those of extras."""
    found = {}
    for each in requirements:
        text, _, marker = each.partition(";")
        name = re.match(r"[\w.-]+", text.strip())
        if name is None or "extra" in marker:
            continue
        found[name[0]] = ""
        with suppress(metadata.PackageNotFoundError):
            found[name[0]] = metadata.version(name[0])
    return found


def origin(direct_url: str | None) -> Origin:
    """The origin of a distribution by its ``direct_url.json`` (PEP 610), or None for none."""
    if direct_url is None:
        return "index"
    try:
        said: dict[str, Any] = msgspec.json.decode(direct_url, type=dict[str, Any])
    except msgspec.DecodeError:
        return "index"
    if "dir_info" not in said:
        return "file"
    info = said["dir_info"]
    return "checkout" if isinstance(info, dict) and info.get("editable") else "folder"


def _system() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return ""


def _requirements() -> list[str]:
    with suppress(metadata.PackageNotFoundError):
        return metadata.requires(NAME) or []
    return []


def _origin() -> Origin:
    for each in metadata.distributions(name=NAME):
        # A build leaves metadata in its folder, which are no installation.
        if each.read_text("INSTALLER") is not None:
            return origin(each.read_text("direct_url.json"))
    return "source"
