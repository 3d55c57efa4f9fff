"""The tier of what is released: tests marked `release`, run where what they depend on has changed.

They are slow, and what they try hardly changes. `make test` has them where the hash of all that
they depend on is not the one in `tests/release-tier.sha256`. Every run that passes them writes that
file, which is committed along with the change: so a machine that has never seen the project knows
what was run. `make test-release` runs them whatever is written there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from tests.testbed import programs

ROOT = Path(__file__).parents[2]
RAN = ROOT / "tests" / "release-tier.sha256"
MARK = "release"
DEPENDS_ON = (
    "pyproject.toml",
    "deploy",
    "docs/how-to/chart.md",
    "docs/how-to/deb.md",
    "docs/how-to/image.md",
    "docs/how-to/release.md",
    "docs/how-to/systemd.md",
    "docs/how-to/take-away.md",
    "docs/how-to/upgrades.md",
    "docs/how-to/wheels.md",
    "docs/start/by-package.md",
    "docs/start/demo.md",
    "systemd",
    "liqod/__init__.py",
    "liqod/__main__.py",
    "liqod/cli/commands",
    "liqod/install",
    "liqod/node.py",
    "liqod/procedures",
    "liqod/resources",
    "tests/cluster/test_chart.py",
    "tests/cluster/test_chart_uninstall.py",
    "tests/cluster/test_chart_upgrade.py",
    "tests/cluster/test_schemas.py",
    "tests/netns/test_machine_pages.py",
    "tests/netns/test_offline.py",
    "tests/netns/test_package.py",
    "tests/node/test_release.py",
    "tests/simulated/install/test_deb.py",
    "tests/simulated/install/test_made_pages.py",
    "tests/testbed/checkout.py",
    "tests/testbed/debian.py",
    "tests/testbed/go/helm3",
    "tests/testbed/go/helm4",
    "tests/testbed/go/kubeconform",
    "tests/testbed/jsonschemas.py",
    "tests/testbed/machineshell.py",
)
"""Files and folders. The rest of the program is tried by the other tests, as it stands in the
checkout."""


def is_due() -> bool:
    """True if the tier has not passed with what there is."""
    return not RAN.exists() or RAN.read_text().strip() != digest()


def passed() -> None:
    """Writes that the tier has passed with what there is."""
    if is_due():
        RAN.write_text(f"{digest()}\n")
        programs.say(f"the release tier passed: commit {RAN.relative_to(ROOT)}")


def digest(root: Path = ROOT) -> str:
    """The hash of all that the tier depends on."""
    made = hashlib.sha256()
    for file in files(root):
        content = file.read_bytes()
        made.update(f"{file.relative_to(root)} {len(content)}\n".encode() + content)
    return made.hexdigest()


def files(root: Path = ROOT) -> Iterator[Path]:
    """What the tier depends on, in the order of names."""
    for name in DEPENDS_ON:
        place = root / name
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        yield from (each for each in found if each.is_file() and "__pycache__" not in each.parts)
