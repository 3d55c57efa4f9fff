"""The content of the image: liqod and its requirements, and nothing else of the folder."""

from __future__ import annotations

import fnmatch
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTAINERFILE = (ROOT / "deploy" / "Containerfile").read_text()


def sent(path: str) -> bool:
    """True if a builder is sent this file: the last line of the ignore file that fits decides."""
    kept = True
    for line in (ROOT / ".containerignore").read_text().splitlines():
        pattern = line.removeprefix("!")
        if not line or line.startswith("#"):
            continue
        below = [path, *(str(parent) for parent in Path(path).parents)]
        if any(_fits(each, pattern) for each in below):
            kept = line.startswith("!")
    return kept


def _fits(path: str, pattern: str) -> bool:
    """``*`` stays within a folder, ``**/`` is any folder."""
    if pattern.startswith("**/"):
        return fnmatch.fnmatch(Path(path).name, pattern.removeprefix("**/"))
    return path.count("/") == pattern.count("/") and fnmatch.fnmatch(path, pattern)


def test_no_credential_beside_the_sources_reaches_the_builder():
    for path in ("rome.kubeconfig", "milan-daemon.kubeconfig", "token", ".venv/bin/python"):
        assert not sent(path), path
    for path in (".git/config", "tests/conftest.py", "docs/security.md", "liqod/x.kubeconfig"):
        assert not sent(path), path
    assert sent("liqod/daemon.py")
    assert sent("tui/page.html")


def test_docker_is_told_the_same():
    assert (ROOT / ".dockerignore").read_text() == (ROOT / ".containerignore").read_text()


def test_the_image_is_made_of_what_is_sent_and_runs_as_nobody():
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", CONTAINERFILE, re.M)
    sources = [word for words in copied for word in words.split()]
    assert "." not in sources
    assert all((ROOT / source).exists() and sent(source) for source in sources)
    user = re.findall(r"^USER (\d+):(\d+)$", CONTAINERFILE, re.M)
    assert user
    assert "0" not in user[-1]
    # The stages come from two bases, so that two digests pin the image.
    assert set(re.findall(r"^FROM (\S+)", CONTAINERFILE, re.M)) == {"$BASE", "$GO"}


def test_the_wireguard_in_the_image_is_the_one_that_the_tests_run():
    module = (ROOT / "tests" / "testbed" / "go" / "wireguard" / "go.mod").read_text()
    tried = re.findall(r"golang\.zx2c4\.com/wireguard (v\S+)", module)
    assert re.findall(r"golang\.zx2c4\.com/wireguard@(v\S+)", CONTAINERFILE) == tried
    assert re.search(r"^RUN apt-get .* nftables ", CONTAINERFILE, re.M)
