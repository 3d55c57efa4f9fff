"""An image as the Open Container Initiative lays it out, made without a builder: blobs in a tar.

The same layers and words give the same bytes.
"""

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from deploy.archives import Content, tar

MEDIA: Final = "application/vnd.oci.image"
LEVEL: Final = 6
"""Of gzip: the highest takes four times as long, for a hundredth less."""

Blobs = dict[str, Content]


class Layer(NamedTuple):
    """A layer as images have it: pressed once, however many have it.

    Attributes:
        data: the tar archive, pressed by gzip.
        unpacked: the SHA-256 of the archive before.
    """

    data: bytes
    unpacked: str


class Image(NamedTuple):
    """The layers of an image, and what it says of itself.

    Attributes:
        name: with its tag; engines that load it call it so.
        architecture: the machine, by Go's name, which is Debian's for those that there are here.
        epoch: its date, in seconds since 1970.
        layers: the lowest one first.
        config: what a container of it runs, as whom, and where.
        labels: its annotations, too.
    """

    name: str
    architecture: str
    epoch: int
    layers: Sequence[Layer]
    config: Mapping[str, Any]
    labels: Mapping[str, str]


def layer(packed: bytes) -> Layer:
    """The layer of a tar archive."""
    return Layer(gzip.compress(packed, LEVEL, mtime=0), digest(packed))


def archive(image: Image) -> bytes:
    """The archive of an image: blobs by their digests, and the index that leads to them."""
    blobs: Blobs = {}
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA}.manifest.v1+json",
        "config": _blob(blobs, f"{MEDIA}.config.v1+json", as_json(_config(image))),
        "layers": [_blob(blobs, f"{MEDIA}.layer.v1.tar+gzip", each.data) for each in image.layers],
        "annotations": dict(image.labels),
    }
    entry = _blob(blobs, f"{MEDIA}.manifest.v1+json", as_json(manifest))
    entry["platform"] = {"architecture": image.architecture, "os": "linux"}
    entry["annotations"] = {
        "io.containerd.image.name": image.name,
        "org.opencontainers.image.ref.name": image.name.rpartition(":")[2],
    }
    index = {
        "schemaVersion": 2,
        "mediaType": f"{MEDIA}.index.v1+json",
        "manifests": [entry],
    }
    blobs["oci-layout"] = Content(as_json({"imageLayoutVersion": "1.0.0"}))
    blobs["index.json"] = Content(as_json(index))
    return tar(blobs, image.epoch)


def _config(image: Image) -> dict[str, Any]:
    created = moment(image.epoch)
    return {
        "architecture": image.architecture,
        "os": "linux",
        "created": created,
        "config": {**image.config, "Labels": dict(image.labels)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{x.unpacked}" for x in image.layers]},
        "history": [{"created": created, "created_by": "deploy.image"} for _ in image.layers],
    }


def _blob(blobs: Blobs, kind: str, data: bytes) -> dict[str, Any]:
    """Add a blob; the descriptor by which others name it."""
    blobs[f"blobs/sha256/{digest(data)}"] = Content(data)
    return {"mediaType": kind, "digest": f"sha256:{digest(data)}", "size": len(data)}


def moment(epoch: int) -> str:
    """A date as JSON has it, of seconds since 1970."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_json(value: object) -> bytes:
    """JSON with its names in order."""
    return json.dumps(value, sort_keys=True, indent=1).encode()


def digest(data: bytes) -> str:
    """The SHA-256."""
    return hashlib.sha256(data).hexdigest()
