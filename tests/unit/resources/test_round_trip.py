"""Objects of a real peering decode into the structs and encode to the same again."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from liqod.resources import DEFINITIONS, ResourceSlice, Tenant

OBJECTS = Path(__file__).parents[2] / "fixtures" / "objects"
STRUCTS = {
    f"cr-{d.resource.KIND.plural}.{d.resource.KIND.group}.yaml": d.resource for d in DEFINITIONS
}
FILES = sorted(OBJECTS.glob("*/cr-*.yaml"))


def items(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load(path.read_text())["items"])


def without_empty(value: Any) -> Any:
    """Empty maps and lists mean the same as none at all, to Liqo's Go types too."""
    if isinstance(value, dict):
        pruned = {k: without_empty(v) for k, v in value.items()}
        return {k: v for k, v in pruned.items() if v not in ({}, [])}
    if isinstance(value, list):
        return [without_empty(item) for item in value]
    return value


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_nothing_is_lost(path):
    struct = STRUCTS[path.name]
    for item in items(path):
        decoded = msgspec.json.decode(msgspec.json.encode(item), type=struct)
        assert decoded.kind == struct.KIND.name
        assert decoded.api_version == struct.KIND.api_version
        assert without_empty(msgspec.json.decode(msgspec.json.encode(decoded))) == without_empty(
            item
        )


def test_both_sides_are_there():
    assert len(FILES) == 21
    assert {path.parent.name for path in FILES} == {"consumer", "provider"}


def test_absent_fields_read_as_their_defaults():
    tenant = msgspec.json.decode(b'{"spec":{"clusterID":"rome"}}', type=Tenant)
    assert tenant.spec.tenant_condition == "Active"
    assert tenant.spec.authz_policy == "KeysExchange"
    assert msgspec.json.encode(tenant) == b'{"spec":{"clusterID":"rome"}}'


def test_unknown_fields_and_values_do_not_stop_a_reader():
    raw = (
        b'{"spec":{"class":"x","news":1,"resources":{"cpu":4}},'
        b'"status":{"conditions":[{"type":"Later","status":"Perhaps"}]}}'
    )
    rslice = msgspec.json.decode(raw, type=ResourceSlice)
    assert rslice.spec.resources == {"cpu": 4}
    assert rslice.verdict("Later") == "Perhaps"
    assert rslice.verdict("Authentication") == ""
