"""ConfigMaps, Secrets, ServiceAccounts, claims, quotas: kinds that mostly hold values."""

import base64
import binascii
from typing import Any

from simulator.catalog import Resource
from simulator.kinds.base import Strategy, Surroundings, default, section
from simulator.wire.failures import Cause, forbidden_field, immutable, wrong

Json = dict[str, Any]


def _check_immutable(obj: Json, old: Json | None, fields: tuple[str, ...]) -> list[Cause]:
    if old is None or not old.get("immutable"):
        return []
    causes = []
    if not obj.get("immutable"):
        causes.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
    causes += [
        forbidden_field(field, "field is immutable when `immutable` is set")
        for field in fields
        if (obj.get(field) or {}) != (old.get(field) or {})
    ]
    return causes


def _check_base64(obj: Json, field: str) -> list[Cause]:
    causes = []
    for key, value in (obj.get(field) or {}).items():
        try:
            base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError, TypeError):
            causes.append(wrong(f"{field}[{key}]", value, "illegal base64 data"))
    return causes


class ConfigMapStrategy(Strategy):
    """``immutable`` is kept to; ``binaryData`` is base64."""

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        causes = _check_immutable(obj, old, ("data", "binaryData"))
        for key, value in (obj.get("data") or {}).items():
            if not isinstance(value, str):
                causes.append(wrong(f"data[{key}]", value, "must be a string"))
        return causes + _check_base64(obj, "binaryData")


class SecretStrategy(Strategy):
    """``stringData`` becomes ``data``, the type is fixed, ``immutable`` is kept to."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        default(obj, type="Opaque")
        plain = obj.pop("stringData", None)
        for key, value in (plain or {}).items():
            section(obj, "data")[key] = base64.b64encode(value.encode()).decode()
        if obj.get("data") is None:
            obj.pop("data", None)

    def validate(self, obj: Json, old: Json | None) -> list[Cause]:
        """As the base class says."""
        causes = _check_base64(obj, "data")
        if old is not None and old.get("type") != obj.get("type"):
            causes.append(immutable("type", obj.get("type")))
        return causes + _check_immutable(obj, old, ("data",))


class ClaimStrategy(Strategy):
    """Claims start Pending."""

    def defaults(self, obj: Json) -> None:
        """As the base class says."""
        default(section(obj, "spec"), volumeMode="Filesystem")

    def create(self, resource: Resource, obj: Json, around: Surroundings) -> None:
        """As the base class says."""
        obj["status"] = {"phase": "Pending"}


VALUES: dict[str, Strategy] = {
    "configmaps": ConfigMapStrategy(),
    "secrets": SecretStrategy(),
    "persistentvolumeclaims": ClaimStrategy(),
}
