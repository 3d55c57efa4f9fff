"""The list of what an image is made of, in the form of SPDX: packages, with versions and hashes."""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from deploy import oci

ROOT: Final = "SPDXRef-image"


class Part(NamedTuple):
    """A package that is in the image.

    Attributes:
        kind: the registry that has it, as package URLs name it.
        name: of the package.
        version: of the package.
        sha256: of the file that it came as.
        qualifiers: what else its package URL says.
    """

    kind: str
    name: str
    version: str
    sha256: str
    qualifiers: str = ""

    @property
    def url(self) -> str:
        """The package URL, by which scanners for vulnerabilities know it."""
        version = self.version.replace("+", "%2B").replace(":", "%3A")
        return f"pkg:{self.kind}/{self.name}@{version}{self.qualifiers}"


def wheel(file: str, sha256: str) -> Part:
    """The part that came as a wheel, which has name and version in the file's name."""
    name, version = file.split("-")[:2]
    return Part("pypi", re.sub(r"[-_.]+", "-", name).lower(), version, sha256)


def document(name: str, version: str, parts: Sequence[Part], epoch: int) -> dict[str, Any]:
    """The list of an image.

    Args:
        name: of the image.
        version: of the image.
        parts: what is in it.
        epoch: its date, in seconds since 1970.
    """
    listed = [_package(f"SPDXRef-{number}", each) for number, each in enumerate(parts)]
    whole = {
        "SPDXID": ROOT,
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "primaryPackagePurpose": "CONTAINER",
    }
    # Two lists of different parts are different documents.
    same = oci.digest(oci.as_json(listed))
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"{name}-{version}",
        "documentNamespace": f"https://liqod.io/spdx/{name}-{version}-{same}",
        "creationInfo": {"created": oci.moment(epoch), "creators": ["Tool: liqod-deploy.image"]},
        "packages": [whole, *listed],
        "relationships": [
            _relation("SPDXRef-DOCUMENT", "DESCRIBES", ROOT),
            *(_relation(ROOT, "CONTAINS", each["SPDXID"]) for each in listed),
        ],
    }


def _package(identifier: str, part: Part) -> dict[str, Any]:
    return {
        "SPDXID": identifier,
        "name": part.name,
        "versionInfo": part.version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "checksums": [{"algorithm": "SHA256", "checksumValue": part.sha256}],
        "externalRefs": [
            {
                "referenceCategory": "PACKAGE-MANAGER",
                "referenceType": "purl",
                "referenceLocator": part.url,
            }
        ],
    }


def _relation(one: str, kind: str, other: str) -> dict[str, str]:
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}
