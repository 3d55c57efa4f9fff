"""Has the API server say what applying manifests would come to: a dry run, which changes nothing.

An object that carries ``last-applied-configuration`` is merged as ``kubectl apply`` does it, any
other one is applied on the server, as one field manager. The order of the manifests counts for
nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, Protocol

import msgspec

from liqod.apimachinery.kinds import Kind
from liqod.errors import ConfigError, LiqodError, NotFound, PermanentError
from liqod.kube.client import APPLY_PATCH, MERGE_PATCH, Client
from liqod.kube.restrequest import JSON
from liqod.procedures.applypatch import BUILT_IN, merge_patch, strategic_patch
from liqod.resources import DEFINITIONS

Json = dict[str, Any]
Change = Literal["created", "changed", "deleted", "same", "refused"]

LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
FILLED_IN: Final = (
    *("managedFields", "resourceVersion", "generation", "uid", "creationTimestamp", "selfLink"),
)
"""Fields of metadata that the API server fills in."""
DEFAULT_NAMESPACE: Final = "default"
"""The namespace of an object that names none, as for ``kubectl`` without a context's."""
OURS: Final[Mapping[tuple[str, str], Kind]] = {
    (each.resource.KIND.api_version, each.resource.KIND.name): each.resource.KIND
    for each in DEFINITIONS
}


class Written(Protocol):
    """An object as it is written in a manifest."""

    @property
    def body(self) -> Json:
        """The object."""
        ...

    @property
    def source(self) -> str:
        """The file that has it."""
        ...


class PlannedObject(msgspec.Struct, frozen=True):
    """One object before and after.

    Attributes:
        kind: its kind.
        namespace, name: its name; no namespace where it is in none.
        source: the file that has it; empty for none.
        change: what becomes of it.
        before, after: as it is, and as it would be; None where it is not there.
        problem: why the API server refuses it; empty where it does not.
    """

    kind: Kind
    namespace: str
    name: str
    source: str
    change: Change
    before: Json | None = None
    after: Json | None = None
    problem: str = ""

    @property
    def title(self) -> str:
        """It in words, such as ``NamespaceOffloading shop/offloading``."""
        place = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind.name} {place}{self.name}"


class DryRun:
    """Asks one API server.

    Args:
        client: of the cluster.
        manager: the field manager as which objects are applied.
    """

    def __init__(self, client: Client, manager: str) -> None:
        self._client, self._manager = client, manager
        self._served: dict[str, dict[str, Kind]] = {}

    async def run(self, manifests: Iterable[Written]) -> list[PlannedObject]:
        """Every object as it would be, also where others have to be there first."""
        every = list(manifests)
        new = {
            str(each.body["metadata"]["name"])
            for each in every
            if (each.body["apiVersion"], each.body["kind"]) == ("v1", "Namespace")
        }
        return [await self._plan(each, new) for each in every]

    async def _plan(self, manifest: Written, new: set[str]) -> PlannedObject:
        body, metadata = manifest.body, manifest.body["metadata"]
        name, group = str(metadata["name"]), str(body["apiVersion"])
        try:
            kind = await self._kind(group, str(body["kind"]))
        except LiqodError as error:
            kind = Kind(*_halves(group), str(body["kind"]), "")
            place = str(metadata.get("namespace") or "")
            return PlannedObject(
                kind, place, name, manifest.source, "refused", None, None, str(error)
            )
        place = str(metadata.get("namespace") or DEFAULT_NAMESPACE) if kind.namespaced else ""
        known = (kind, place, name, manifest.source)
        before = await self._client.find(kind, name, place or None)
        try:
            after = await self._applied(kind, body, place, before)
        except NotFound:
            if place not in new:
                told = f"there is no namespace {place}"
                return PlannedObject(*known, "refused", before, None, told)
            problem = await self._schema_problem(kind, body)
            change: Change = "refused" if problem else "created"
            return PlannedObject(*known, change, None, body, problem)
        except PermanentError as error:
            return PlannedObject(*known, "refused", before, None, str(error))
        if before is None:
            return PlannedObject(*known, "created", None, after)
        change = "same" if shown(before) == shown(after) else "changed"
        return PlannedObject(*known, change, before, after)

    async def _applied(self, kind: Kind, body: Json, place: str, before: Json | None) -> Json:
        """The object as the API server would store it. Raises PermanentError: it refuses."""
        path = kind.path(place or None, str(body["metadata"]["name"]))
        notes = (before or {}).get("metadata", {}).get("annotations") or {}
        query = {"dryRun": "All", "fieldManager": self._manager, "fieldValidation": "Strict"}
        if LAST_APPLIED in notes:
            custom = kind.group not in BUILT_IN
            content = MERGE_PATCH if custom else STRATEGIC_PATCH
            # kubectl writes its own annotation, so that those of others always stay.
            written = {**body, "metadata": {"annotations": {}, **body["metadata"]}}
            patch = merge_patch if custom else strategic_patch
            sent = patch(msgspec.json.decode(notes[LAST_APPLIED]), written)
        else:
            content, sent, query["force"] = APPLY_PATCH, body, "true"
        answer = await self._client.raw(
            "PATCH",
            path,
            query=query,
            body=msgspec.json.encode(sent),
            headers={"Accept": JSON, "Content-Type": content},
        )
        found: Json = msgspec.json.decode(answer.body)
        return found

    async def _schema_problem(self, kind: Kind, body: Json) -> str:
        """Why an object is refused whose namespace is yet to be made; empty where it is not."""
        if (kind.api_version, kind.name) not in OURS:
            return ""
        kept = {key: each for key, each in body["metadata"].items() if key not in ("name", "uid")}
        # Under a name and in a namespace by which nothing of it is judged.
        metadata = {**kept, "namespace": DEFAULT_NAMESPACE, "generateName": "plan-"}
        query = {"dryRun": "All", "fieldValidation": "Strict"}
        sent = msgspec.json.encode({**body, "metadata": metadata})
        try:
            await self._client.raw("POST", kind.path(DEFAULT_NAMESPACE), query=query, body=sent)
        except PermanentError as error:
            return str(error)
        return ""

    async def _kind(self, api_version: str, name: str) -> Kind:
        """The kind of a manifest. Raises ConfigError: the API server has none of that name."""
        if (ours := OURS.get((api_version, name))) is not None:
            return ours
        if api_version not in self._served:
            self._served[api_version] = await self._kinds(api_version)
        try:
            return self._served[api_version][name]
        except KeyError:
            raise ConfigError(f"this cluster has no kind {name} of {api_version}") from None

    async def _kinds(self, api_version: str) -> dict[str, Kind]:
        path = f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"
        try:
            answer = await self._client.raw("GET", path, headers={"Accept": JSON})
        except NotFound:
            return {}
        group, version = _halves(api_version)
        return {
            each["kind"]: Kind(group, version, each["kind"], each["name"], each["namespaced"])
            for each in msgspec.json.decode(answer.body).get("resources", ())
            if "/" not in each["name"]
        }


def shown(found: Json) -> Json:
    """An object without its status and what the API server fills in."""
    made = {key: each for key, each in found.items() if key != "status"}
    meta = {key: each for key, each in made["metadata"].items() if key not in FILLED_IN}
    notes = dict(meta.get("annotations") or {})
    notes.pop(LAST_APPLIED, None)
    meta.pop("annotations", None)
    made["metadata"] = {**meta, **({"annotations": notes} if notes else {})}
    return made


def differences(before: Any, after: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """The fields in which two objects differ, by their paths; None where one has none."""
    if not (isinstance(before, dict) and isinstance(after, dict)):
        return [] if before == after else [(path, before, after)]
    found: list[tuple[str, Any, Any]] = []
    for key in sorted(before.keys() | after.keys()):
        found += differences(before.get(key), after.get(key), f"{path}.{key}" if path else key)
    return found


def _halves(api_version: str) -> tuple[str, str]:
    group, _, version = api_version.rpartition("/")
    return group, version
