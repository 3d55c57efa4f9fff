"""Archives whose bytes follow from their contents alone: packages, images, charts, releases."""

import gzip
import io
import lzma
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Final, NamedTuple

AR_HEAD: Final = b"!<arch>\n"
PRESET: Final = 1
"""Of xz: the highest takes ten times as long, for a sixth less."""


class Content(NamedTuple):
    """A file of an archive.

    Attributes:
        data: what is in it; of a link its target.
        mode: who may do what with it.
        link: it is a symbolic link.
    """

    data: bytes
    mode: int = 0o644
    link: bool = False


def text(words: str, mode: int = 0o644) -> Content:
    """A file of text."""
    return Content(words.encode(), mode)


def link(target: str) -> Content:
    """A symbolic link."""
    return Content(target.encode(), 0o777, link=True)


def tar_xz(files: Mapping[str, Content], epoch: int) -> bytes:
    """A tar archive, pressed by xz; as :func:`tar`."""
    return lzma.compress(tar(files, epoch), preset=PRESET)


def tar_gz(files: Mapping[str, Content], epoch: int) -> bytes:
    """A tar archive without a root, pressed by gzip; as :func:`tar`."""
    return gzip.compress(tar(files, epoch, root=""), 9, mtime=epoch)


def tar(
    files: Mapping[str, Content],
    epoch: int,
    empty: Mapping[str, int] | None = None,
    root: str = "./",
) -> bytes:
    """A tar archive in the order of names, of root's, with the folders that lead to the files.

    Args:
        files: each by its path, without a slash at its beginning.
        epoch: the date of all of it, in seconds since 1970.
        empty: folders with nothing in them, and who may do what with each.
        root: begins each name; where it is empty, the root itself is not in the archive.
    """
    modes = empty or {}
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for folder in sorted({*folders((*files, *modes)), *modes}):
            name = f"{root}{folder}/" if folder else root
            entry = _entry(name, epoch, tarfile.DIRTYPE)
            entry.mode = modes.get(folder, 0o755)
            if name:
                archive.addfile(entry)
        for name, each in sorted(files.items()):
            entry = _entry(
                f"{root}{name}", epoch, tarfile.SYMTYPE if each.link else tarfile.REGTYPE
            )
            entry.mode = each.mode
            if each.link:
                entry.linkname = each.data.decode()
                archive.addfile(entry)
            else:
                entry.size = len(each.data)
                archive.addfile(entry, io.BytesIO(each.data))
    return written.getvalue()


def folders(files: Iterable[str]) -> list[str]:
    """The folders that lead to files, each behind the one it is in; the first is the root."""
    found = {str(parent) for name in files for parent in PurePosixPath(name).parents}
    return ["", *sorted(found - {"."})]


def _entry(name: str, epoch: int, kind: bytes) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mtime, entry.mode = kind, epoch, 0o755
    entry.uname = entry.gname = "root"
    return entry


def ar(members: Mapping[str, bytes], epoch: int) -> bytes:
    """An ar archive, of root's.

    Args:
        members: each by its name, of 16 letters at the most.
        epoch: the date of all of it, in seconds since 1970.
    """
    written = [AR_HEAD]
    for name, data in members.items():
        written.append(f"{name:<16}{epoch:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode())
        written.append(data + b"\n" * (len(data) % 2))
    return b"".join(written)
