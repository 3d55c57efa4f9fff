"""How contract tests ask: through the project's client, or raw where the wire itself matters."""

import http.client
import json
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlencode, urlsplit

import trio

from liqod.apimachinery.kinds import Kind
from liqod.kube.client import Client
from liqod.kube.credentials.credentials import Credentials, from_kubeconfig

T = TypeVar("T")
Json = dict[str, Any]

MERGE = "application/merge-patch+json"
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
OPERATIONS = "application/json-patch+json"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


class Answer(NamedTuple):
    """A response: its status and decoded body."""

    status: int
    body: Any

    @property
    def message(self) -> str:
        """The message of a ``Status``."""
        return str(self.body["message"])

    @property
    def reason(self) -> str:
        """The reason of a ``Status``."""
        return str(self.body.get("reason", ""))


class Api:
    """An API server under test, and a namespace of this test's own."""

    def __init__(self, client: Client, kubeconfig: str, namespace: str, real: bool) -> None:
        self.client = client
        self.namespace = namespace
        self.real = real
        self.credentials = from_kubeconfig(kubeconfig)

    def path(self, kind: Kind, name: str | None = None, subresource: str = "") -> str:
        """The path of a collection or object in the test's namespace."""
        return kind.path(self.namespace if kind.namespaced else None, name, subresource)

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content: str = "application/json",
        accept: str = "application/json",
        credentials: Credentials | None = None,
        **query: Any,
    ) -> Answer:
        """One request and its answer, whatever that is."""
        target = f"{path}?{urlencode(query)}" if query else path
        data = None if body is None else json.dumps(body).encode()
        sent = {"Accept": accept}
        if data is not None:
            sent["Content-Type"] = content
        return await trio.to_thread.run_sync(
            _ask, credentials or self.credentials, method, target, data, sent
        )

    async def create(self, kind: Kind, obj: Json, **query: Any) -> Answer:
        """POST into the test's namespace."""
        full = {"apiVersion": kind.api_version, "kind": kind.name, **obj}
        return await self.call("POST", self.path(kind), full, **query)

    async def made(self, kind: Kind, obj: Json) -> Json:
        """POST, and the object that came of it."""
        answer = await self.create(kind, obj)
        assert answer.status == 201, answer.body
        found: Json = answer.body
        return found

    async def get(self, kind: Kind, name: str) -> Json:
        """The object as it is."""
        answer = await self.call("GET", self.path(kind, name))
        assert answer.status == 200, answer.body
        found: Json = answer.body
        return found

    async def gone(self, kind: Kind, name: str, within: float = 20.0) -> None:
        """Wait until an object is no more."""

        async def absent() -> bool:
            return (await self.call("GET", self.path(kind, name))).status == 404

        await eventually(absent, within)

    async def access(self, verb: str, kind: Kind, credentials: Credentials) -> bool:
        """True if these credentials may do this in the test's namespace."""
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {
                    "verb": verb,
                    "group": kind.group,
                    "resource": kind.plural,
                    "namespace": self.namespace,
                }
            },
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await self.call("POST", path, review, credentials=credentials)
        return bool(answer.body["status"]["allowed"])


def _ask(
    credentials: Credentials, method: str, target: str, body: bytes | None, headers: dict[str, str]
) -> Answer:
    context = ssl.create_default_context(cadata=(credentials.ca or b"").decode())
    if credentials.client_cert and credentials.client_key:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "pair.pem"
            file.write_bytes(credentials.client_cert + b"\n" + credentials.client_key)
            context.load_cert_chain(file)
    if credentials.token:
        headers = {**headers, "Authorization": f"Bearer {credentials.token}"}
    url = urlsplit(credentials.server)
    connection = http.client.HTTPSConnection(
        url.hostname or "", url.port, timeout=20, context=context
    )
    try:
        connection.request(method, target, body, headers)
        response = connection.getresponse()
        text = response.read()
    finally:
        connection.close()
    if response.headers.get_content_type() == "application/json":
        return Answer(response.status, json.loads(text))
    return Answer(response.status, text.decode())


async def eventually(
    look: Callable[[], Awaitable[T]], within: float = 20.0, every: float = 0.02
) -> T:
    """Look until what is found is true."""
    found: T | None = None
    with trio.move_on_after(within):
        while True:
            found = await look()
            if found:
                return found
            await trio.sleep(every)
    raise AssertionError(f"not within {within} s; last: {found!r}")
