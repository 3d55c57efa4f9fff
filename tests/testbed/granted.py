"""Writes anew what an installation grants for reflected kinds: `python -m tests.testbed.granted`.

The file is compared with what is made in `tests/unit/install/test_granted.py`, so that a change of
rights, of policies or of the default quota is seen as a difference in it.
"""

import json
from pathlib import Path
from typing import Any

from liqod.config import ProviderSettings
from liqod.install import Options, manifests
from liqod.install.manifests import VERSION_ANNOTATION

GRANTED = Path(__file__).parents[1] / "fixtures" / "granted.json"


def made() -> dict[tuple[str, str], dict[str, Any]]:
    """All objects of an installation, by kind and name, but for its version."""
    found = manifests(Options(cluster_id="milan"), [])
    for each in found:
        del each["metadata"]["annotations"][VERSION_ANNOTATION]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def main() -> None:
    """Write the objects that the file has, as they are made now."""
    now = made()
    listed = [
        (each["kind"], each["metadata"]["name"])
        for each in json.loads(GRANTED.read_text())["manifests"]
    ]
    content = {
        "manifests": [now[key] for key in listed],
        "object_quota": ProviderSettings().object_quota,
    }
    GRANTED.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
