"""Annotations by which users allow or forbid something for one object."""

from collections.abc import Mapping
from typing import Any

from liqod.apimachinery import labels


def bool_value(annotations: Mapping[str, Any], key: str) -> bool | None:
    """The boolean value of an annotation; None where the annotation is missing.

    As in Liqo, any value but ``false`` counts as yes.
    """
    value = annotations.get(key)
    return None if value is None else str(value).strip().lower() != labels.FALSE
