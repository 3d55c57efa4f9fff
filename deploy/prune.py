"""What packages have and an image has not: nothing in a container can use it."""

import fnmatch
import re
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

from deploy.archives import Content, text

REQUIREMENTS: Final = frozenset({"kubernetes", "pycparser"})
"""Packages that liqod runs without: credential plugins of a kubeconfig are programs, and no image
has such a program; declarations of C are parsed where modules are made of them."""
LEXERS: Final = ("__init__", "_mapping", "python", "special")
"""Those of Pygments' that tracebacks are coloured by, among six hundred languages."""
MAPPING: Final = "/pygments/lexers/_mapping.py"
_LIBRARY: Final = "usr/lib/python3.*"
LEFT_OUT: Final = (
    *("usr/share/man/*", "usr/share/lintian/*", "usr/share/locale/*", "usr/share/gcc/*"),
    *("usr/share/zoneinfo/right/*", "usr/share/zoneinfo/posix/*", "usr/share/bash-completion/*"),
    *("usr/share/zsh/*", "usr/share/fish/*", "usr/share/applications/*", "usr/share/pixmaps/*"),
    *("usr/share/binfmts/*", "usr/share/base-files/*", "usr/share/bug/*", "usr/sbin/update-*"),
    *("usr/lib/*/gconv/*", "usr/lib/systemd/*", "etc/update-motd.d/*", "etc/skel/*"),
    *("usr/share/python3/*", "usr/share/terminfo/*", "usr/bin/pydoc*", "*/__pycache__/*"),
    # Of Python, what makes packages and environments, draws windows, or is for other systems.
    *(f"{_LIBRARY}/{each}/*" for each in ("ensurepip", "idlelib", "lib2to3", "test", "venv")),
    *(f"{_LIBRARY}/{each}/*" for each in ("pydoc_data", "turtledemo", "distutils", "msilib")),
    *(f"{_LIBRARY}/{each}" for each in ("turtle.py", "pydoc.py", "config-3.*/*")),
    # Modules whose libraries are in no package of the image.
    *(f"{_LIBRARY}/lib-dynload/{each}.*" for each in ("nis", "_dbm", "_curses*", "readline")),
    f"{_LIBRARY}/curses/*",
    # Encodings of East Asia from before Unicode: Kubernetes speaks UTF-8 alone.
    *(f"{_LIBRARY}/lib-dynload/_codecs_{each}.*" for each in ("cn", "hk", "iso2022")),
    *(f"{_LIBRARY}/lib-dynload/_codecs_{each}.*" for each in ("jp", "kr", "tw")),
    # What tests Python, and what stands in where its modules in C are missing.
    *(f"{_LIBRARY}/lib-dynload/{each}*" for each in ("_test", "_xxtest", "_ctypes_test", "xx")),
    *(f"{_LIBRARY}/{each}.py" for each in ("_pydecimal", "_pyio")),
    # Libraries that nothing in the image is linked to.
    *(f"usr/lib/*-linux-gnu/lib{each}.*" for each in ("mvec", "nsl", "tic", "nss_compat")),
    *(f"usr/lib/*-linux-gnu/lib{each}.*" for each in ("memusage", "pcprofile", "thread_db")),
    *(f"usr/lib/*-linux-gnu/lib{each}.*" for each in ("c_malloc_debug", "BrokenLocale")),
    "usr/lib/*-linux-gnu/libnss_hesiod.*",
    # Of wheels, what they are compiled from, and what checks them.
    "*/platformdirs-*/sboms/*",
    *("*.pyi", "*.pyx", "*.pxd", "*/site-packages/*.[ch]", "*/_tests/*", "*/.agents/*"),
    "*/site-packages/textual/demo/*",
)
ELF: Final = b"\x7fELF\x02\x01"
"""The beginning of a program or library of 64 bits, the least significant byte first."""
HEADER: Final = 64
PROGRAM_HEADERS, SECTION_HEADERS, PROGRAM_HEADER_SIZE, SECTION_HEADER_SIZE = 32, 40, 54, 58
"""Places in the header of such a file; behind the last two is how many there are."""
KEPT: Final = "usr/share/doc/*/copyright"


def kept(files: Iterable[tuple[str, Content]]) -> Iterator[tuple[str, Content]]:
    """Those of the files of a package that an image has."""
    for name, content in files:
        if name.startswith("usr/share/doc/"):
            if fnmatch.fnmatchcase(name, KEPT):
                yield name, content
        elif name.endswith(MAPPING):
            yield name, _mapping(content)
        elif not _unneeded().match(name):
            stripped = "/site-packages/" in name and content.data.startswith(ELF)
            yield name, content._replace(data=strip(content.data)) if stripped else content


@cache
def _unneeded() -> re.Pattern[str]:
    others = "|".join(fnmatch.translate(each) for each in LEFT_OUT)
    lexers = "|".join(LEXERS)
    return re.compile(rf"{others}|.*/pygments/lexers/(?!(?:{lexers})\.py$).*")


def strip(library: bytes) -> bytes:
    """A library of 64 bits without what follows its last segment: symbols for debuggers, and the
    table that leads to them. What loads it reads segments alone."""
    (begin,) = struct.unpack_from("<Q", library, PROGRAM_HEADERS)
    size, count = struct.unpack_from("<HH", library, PROGRAM_HEADER_SIZE)
    ends = [HEADER]
    for number in range(count):
        offset, _, _, length = struct.unpack_from("<4Q", library, begin + number * size + 8)
        ends.append(offset + length)
    made = bytearray(library[: max(*ends, begin + size * count)])
    struct.pack_into("<Q", made, SECTION_HEADERS, 0)
    struct.pack_into("<HHH", made, SECTION_HEADER_SIZE, 0, 0, 0)
    return bytes(made)


def _mapping(content: Content) -> Content:
    """Pygments' list of lexers, of those that are there: it says of others that it knows none."""
    named = re.compile(r"^    '\w+': \('pygments\.lexers\.(\w+)',")
    lines = content.data.decode().splitlines(keepends=True)
    return text("".join(x for x in lines if (m := named.match(x)) is None or m[1] in LEXERS))
