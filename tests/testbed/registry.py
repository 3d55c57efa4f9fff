"""A registry of container images on this host, for those that others' tools name and would pull.

It serves one image under one name, whatever its tag, over HTTP; a node's containerd is set to ask
here instead (`NodeCluster.mirror`).
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.testbed import image

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar"


class Registry:
    """Serves an image of these layers, each a tar archive, until closed."""

    def __init__(self, layers: Sequence[bytes], config: Mapping[str, Any]) -> None:
        described = image.described(layers, config)
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": _descriptor(CONFIG, described),
            "layers": [_descriptor(LAYER, layer) for layer in layers],
        }
        self._manifest = json.dumps(manifest).encode()
        self._blobs = {_digest(each): each for each in (described, self._manifest, *layers)}
        self._server = ThreadingHTTPServer(("0.0.0.0", 0), self._handler())
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()

    def _found(self, path: str) -> tuple[str, bytes] | None:
        """Media type and content of what a path names."""
        _, _, last = path.rpartition("/")
        if path == "/v2/":
            return "application/json", b"{}"
        if "/manifests/" in path:
            return MANIFEST, self._manifest
        blob = self._blobs.get(last)
        return ("application/octet-stream", blob) if blob is not None else None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._answer(body=False)

            def do_GET(self) -> None:
                self._answer(body=True)

            def _answer(self, *, body: bool) -> None:
                found = registry._found(self.path.partition("?")[0])
                if found is None:
                    self.send_error(404)
                    return
                kind, content = found
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Docker-Content-Digest", _digest(content))
                self.end_headers()
                if body:
                    self.wfile.write(content)

            def log_message(self, format: str, *arguments: object) -> None:
                """Nothing: what fails is reported by the node."""

        return Handler


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "size": len(content), "digest": _digest(content)}
