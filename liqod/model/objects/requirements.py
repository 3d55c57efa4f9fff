"""Label selectors as people type them, turned into node selector terms. Pure.

The syntax is that of Kubernetes' label selectors: ``a=b``, ``a!=b``, ``a in (b, c)``,
``a notin (b)``, ``a`` and ``!a``, separated by commas. Several ``--selector`` options are
alternatives (one term each).
"""

import re
from typing import Any

from liqod.errors import ConfigError

_KEY = r"[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?"
_SET = re.compile(rf"^(?P<key>{_KEY})\s+(?P<op>in|notin)\s+\((?P<values>[^()]*)\)$")
_EQUALITY = re.compile(rf"^(?P<key>{_KEY})\s*(?P<op>==|=|!=)\s*(?P<value>[-A-Za-z0-9_.]*)$")
_EXISTS = re.compile(rf"^(?P<not>!?)\s*(?P<key>{_KEY})$")


def node_selector(selectors: list[str]) -> dict[str, Any]:
    """A ``NodeSelector`` in which each text is one term; none, or an empty one, selects all nodes.

    Raises:
        ConfigError: a text is no label selector.
    """
    if "" in selectors:
        selectors = []
    return {"nodeSelectorTerms": [{"matchExpressions": requirements(s)} for s in selectors]}


def requirements(selector: str) -> list[dict[str, Any]]:
    """The requirements of one selector.

    Raises:
        ConfigError: it is no label selector.
    """
    parts = re.split(r",(?![^()]*\))", selector)
    return [_requirement(part.strip(), selector) for part in parts]


def _requirement(text: str, whole: str) -> dict[str, Any]:
    if match := _SET.match(text):
        values = [value.strip() for value in match["values"].split(",") if value.strip()]
        if values:
            operator = "In" if match["op"] == "in" else "NotIn"
            return {"key": match["key"], "operator": operator, "values": values}
    elif match := _EQUALITY.match(text):
        operator = "NotIn" if match["op"] == "!=" else "In"
        return {"key": match["key"], "operator": operator, "values": [match["value"]]}
    elif match := _EXISTS.match(text):
        return {"key": match["key"], "operator": "DoesNotExist" if match["not"] else "Exists"}
    raise ConfigError(
        f"{text!r} in the selector {whole!r} is no requirement; write a=b, a!=b, a in (b, c) or a"
    )
