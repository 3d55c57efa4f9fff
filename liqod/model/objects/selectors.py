"""Node selectors: which labels satisfy them, and the product of two of them.

The terms are plain JSON, as ``core/v1`` writes a NodeSelector: the terms are alternatives, the
expressions of one term all hold. A term without any expression matches nothing. An *absent*
selector and one without terms are not the same to Kubernetes; to Liqo a ``clusterSelector``
without terms selects every cluster, and so does :func:`selects`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Json = dict[str, Any]


def requirement_holds(requirement: Json, labels: Mapping[str, str]) -> bool:
    """True if one expression (``key``, ``operator``, ``values``) holds for these labels.

    An operator that is unknown to Kubernetes holds for nothing.
    """
    operator, values = requirement.get("operator"), requirement.get("values") or []
    return holds(operator, values, labels.get(requirement.get("key", "")))


def holds(operator: object, values: Sequence[str], value: str | None) -> bool:
    """The same for one label's value; None where the label is missing."""
    match operator:
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(str(operator), value, values)
        case _:
            return False


def term_matches(term: Json, name: str, labels: Mapping[str, str]) -> bool:
    """True if one term matches the node of that name and those labels."""
    expressions = term.get("matchExpressions") or []
    fields = term.get("matchFields") or []
    if not expressions and not fields:
        return False
    return all(requirement_holds(each, labels) for each in expressions) and all(
        requirement_holds(each, {"metadata.name": name}) for each in fields
    )


def labels_match(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """True if labels satisfy a ``metav1.LabelSelector``: an empty one selects all, None nothing."""
    if selector is None:
        return False
    named = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in named.items()) and all(
        requirement_holds(each, labels) for each in selector.get("matchExpressions") or ()
    )


def selects(terms: Sequence[Json], name: str, labels: Mapping[str, str]) -> bool:
    """True if a ``clusterSelector`` with these terms selects a virtual node; none selects all."""
    return not terms or any(term_matches(term, name, labels) for term in terms)


def product(left: Sequence[Json], right: Sequence[Json]) -> list[Json]:
    """The terms that match exactly where both lists match: each of one with each of the other.

    Expressions that both have appear once; terms that come out equal appear once.
    """
    terms: list[Json] = []
    for one in left:
        for other in right:
            term = _merged(one, other)
            if term is not None and term not in terms:
                terms.append(term)
    return terms


def implies(term: Json, alternatives: Iterable[Json]) -> bool:
    """True if a term already holds every expression of one of the alternatives."""
    return any(_merged(term, other) == _merged(term, term) for other in alternatives)


def _merged(one: Json, other: Json) -> Json | None:
    """Both terms in one, or None where either matches nothing."""
    term: Json = {}
    for part in (one, other):
        if not part.get("matchExpressions") and not part.get("matchFields"):
            return None
    for key in ("matchExpressions", "matchFields"):
        joined: list[Json] = []
        for each in [*(one.get(key) or []), *(other.get(key) or [])]:
            if each not in joined:
                joined.append(each)
        if joined:
            term[key] = joined
    return term


def _compares(operator: str, value: str | None, values: Sequence[str]) -> bool:
    try:
        left, right = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right
