"""Refusals of an API server: the ``metav1.Status`` forms, worded as the real one.

Callers and logs match on these texts, so they follow ``k8s.io/apimachinery/pkg/api/errors`` and
``util/validation/field`` to the letter.
"""

from typing import Any

import msgspec

from simulator.catalog import Resource

Json = dict[str, Any]


class ApiError(Exception):
    """A request that is refused.

    Attributes:
        code: the HTTP status.
        reason: the machine-readable ``metav1.StatusReason``.
        details: ``metav1.StatusDetails``.
        retry_after: seconds for the ``Retry-After`` header, or 0 for none.
    """

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: Json | None = None,
        retry_after: int = 0,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.details = details or {}
        self.retry_after = retry_after

    def status(self) -> Json:
        """The ``Status`` object that goes over the wire."""
        details = dict(self.details)
        if self.retry_after:
            details["retryAfterSeconds"] = self.retry_after
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            **({"details": details} if details else {}),
            "code": self.code,
        }


class Cause(msgspec.Struct, frozen=True):
    """One thing wrong with one field, as validation reports it.

    Attributes:
        field: the path, such as ``spec.containers[0].image``.
        message: what follows the path, such as ``Required value``.
        reason: ``FieldValueInvalid``, ``FieldValueRequired``, …
    """

    field: str
    message: str
    reason: str = "FieldValueInvalid"


def required(field: str, detail: str = "") -> Cause:
    """A field that must be there."""
    return Cause(field, "Required value" + (f": {detail}" if detail else ""), "FieldValueRequired")


def immutable(field: str, value: object) -> Cause:
    """A field that may not change."""
    return wrong(field, value, "field is immutable")


def wrong(field: str, value: object, detail: str) -> Cause:
    """A field whose value is not allowed, with that value."""
    shown = msgspec.json.encode(value).decode()
    return Cause(field, f"Invalid value: {shown}: {detail}")


def forbidden_field(field: str, detail: str) -> Cause:
    """A field that may not be set this way."""
    return Cause(field, f"Forbidden: {detail}", "FieldValueForbidden")


def _details(resource: Resource, name: str, kind: str = "") -> Json:
    found = {"name": name, "group": resource.group, "kind": kind or resource.plural}
    return {key: value for key, value in found.items() if value}


def not_found(resource: Resource, name: str) -> ApiError:
    """404 for an object."""
    message = f'{resource.qualified} "{name}" not found'
    return ApiError(404, "NotFound", message, details=_details(resource, name))


def no_route() -> ApiError:
    """404 for a path or kind that is not served."""
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(resource: Resource, name: str) -> ApiError:
    """409 on create."""
    message = f'{resource.qualified} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, details=_details(resource, name))


STALE = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


def conflict(resource: Resource, name: str, why: str = STALE) -> ApiError:
    """409: a precondition does not hold."""
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", message, details=_details(resource, name))


def invalid(resource: Resource, name: str, causes: list[Cause]) -> ApiError:
    """422 with every cause."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    joined = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{resource.kind}.{resource.group}" if resource.group else resource.kind
    details = _details(resource, name, resource.kind)
    details["causes"] = [
        {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes
    ]
    message = f'{qualified} "{name}" is invalid: {joined}'
    return ApiError(422, "Invalid", message, details=details)


def forbidden(
    resource: Resource, name: str, why: str, causes: list[Json] | None = None
) -> ApiError:
    """403 by admission."""
    details = _details(resource, name)
    if causes:
        details["causes"] = causes
    return ApiError(
        403, "Forbidden", f'{resource.qualified} "{name}" is forbidden: {why}', details=details
    )


def bad_request(message: str) -> ApiError:
    """400."""
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    """410: the version or the continue token is too old."""
    return ApiError(410, "Expired", message)


def unsupported(content_type: str) -> ApiError:
    """415 for a patch or body of another type."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        f'the body of the request was in an unknown format - "{content_type}" is not accepted',
    )
