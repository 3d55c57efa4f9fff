"""``python -m liqod.resources``: write the CRDs that the structs describe, and the page of them."""

from pathlib import Path

from liqod.resources import DEFINITIONS, page
from liqod.resources.crdmanifests import file_name, render_crd

FOLDER = Path(__file__).parent / "crds"


def main() -> None:
    """Write every CRD and remove files of kinds that are gone."""
    FOLDER.mkdir(exist_ok=True)
    files = {file_name(definition): render_crd(definition) for definition in DEFINITIONS}
    for path in FOLDER.glob("*.yaml"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (FOLDER / name).write_text(text)
    page.FILE.write_text(page.render())
    print(f"{len(files)} CRDs written to {FOLDER}, and {page.FILE}")


if __name__ == "__main__":
    main()
