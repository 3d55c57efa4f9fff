"""Request bodies into plain values, and answers into responses."""

from typing import Any

import msgspec
import yaml

from liqod.kube.http.httpserver import HttpRequest, HttpResponse
from simulator.access.identities import User
from simulator.catalog import Resource
from simulator.wire.failures import ApiError, bad_request, unsupported

Json = dict[str, Any]

JSON = {"content-type": "application/json"}


def read(request: HttpRequest) -> Any:
    """The body, JSON or YAML.

    Raises:
        ApiError: 400, it is neither; 415, it says that it is something else.
    """
    content = request.headers.get("content-type", "").partition(";")[0].strip()
    if content.startswith("application/vnd.") or content.endswith("cbor"):
        raise unsupported(content)
    try:
        return msgspec.json.decode(request.body)
    except msgspec.DecodeError as error:
        if "yaml" not in request.headers.get("content-type", ""):
            raise bad_request(f"the object provided is unrecognized: {error}") from error
    try:
        return yaml.load(request.body, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding YAML: {error}") from error


def read_object(request: HttpRequest, resource: Resource) -> Json:
    """The body as an object of a kind.

    Raises:
        ApiError: 400, it is of another kind or no object.
    """
    found = read(request)
    if not isinstance(found, dict):
        raise bad_request("the object provided is unrecognized (must be of type Object)")
    kind, api_version = found.get("kind"), found.get("apiVersion")
    if not kind or not api_version:
        if resource.custom:
            raise bad_request(
                "Object 'Kind' is missing" if not kind else "Object 'apiVersion' is missing"
            )
        found["kind"], found["apiVersion"] = resource.kind, resource.api_version
    elif (kind, api_version) != (resource.kind, resource.api_version):
        raise bad_request(
            f"{kind} in version {api_version!r} cannot be handled as a {resource.kind}: the API"
            f" version in the data ({api_version}) does not match the expected API version"
            f" ({resource.api_version})"
        )
    if not isinstance(found.get("metadata", {}), dict):
        raise bad_request("metadata must be of type Object")
    return found


def answer(value: object, status: int = 200) -> HttpResponse:
    """A JSON answer; bytes are JSON already."""
    body = value if isinstance(value, bytes) else msgspec.json.encode(value)
    return HttpResponse(status, body, JSON)


def refuse(error: ApiError) -> HttpResponse:
    """The answer for a refused request."""
    headers = dict(JSON)
    if error.retry_after:
        headers["retry-after"] = str(error.retry_after)
    return HttpResponse(error.code, msgspec.json.encode(error.status()), headers)


def success(resource: Resource, name: str, uid: str) -> Json:
    """The ``Status`` that a completed deletion answers."""
    details = {"name": name, "group": resource.group, "kind": resource.plural, "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def manager_of(request: HttpRequest, user: User) -> str:
    """The field manager of a write: the parameter, else the first word of the user agent."""
    agent = request.headers.get("user-agent", "").partition("/")[0]
    return request.one("fieldManager") or agent or user.name


def is_dry(request: HttpRequest) -> bool:
    """True if a write is a dry run.

    Raises:
        ApiError: 400 for a value other than ``All``.
    """
    values = request.query.get("dryRun", [])
    if any(value != "All" for value in values):
        raise bad_request(f"Invalid value: {values}: dryRun must be All")
    return bool(values)
