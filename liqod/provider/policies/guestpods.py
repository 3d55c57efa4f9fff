"""The admission policy for pods that a consumer writes here itself (direct pods). Pure.

Whether one is lent, and as whose, is the daemon's word, asked by a webhook when it is created
(:mod:`liqod.provider.workloads.directpods`). Nobody is asked about what follows, and so it is said
here: a consumer creates no pods but those; it changes nothing of them but labels and annotations
that guests may have; and it ends no others.
"""

from typing import Final

from liqod.model import labels
from liqod.model.crossing import keys
from liqod.provider.policies import guestkeys
from liqod.provider.policies.cel import (
    Manifest,
    for_guests,
    label,
    no_finalizers,
    no_owners,
    refusal,
    rule,
)

PODS_POLICY: Final = "liqod-guest-pods"
CHANGES_POLICY: Final = "liqod-guest-pods-changes"
_WRITTEN: Final = ["pods", "pods/ephemeralcontainers", "pods/resize"]
"""A consumer has no right to the subresources; one that is bound to more has to be held, too."""
_ONLY_DIRECT: Final = (
    f"a consumer writes and ends its direct pods only ({labels.MANAGED_BY}="
    f"{labels.MANAGED_BY_CONSUMER})"
)


def policies() -> list[Manifest]:
    """The policies, each followed by its binding."""
    return [
        *for_guests(
            PODS_POLICY,
            [rule("", ["pods"], ["CREATE"])],
            refusal(_marked("object"), _ONLY_DIRECT),
        ),
        *for_guests(
            CHANGES_POLICY,
            [rule("", _WRITTEN, ["UPDATE", "DELETE"])],
            *_changes(),
            variables=guestkeys.key_variables(),
        ),
    ]


def _changes() -> list[Manifest]:
    """What a consumer may not do to pods that are there; where it ends one there is no object."""
    kept = " && ".join(
        f"{label('object', key)} == {label('oldObject', key)}"
        for key in (labels.CREATOR_USER, labels.ORIGIN)
    )
    return [
        refusal(
            f"{_marked('oldObject')} && (request.operation == 'DELETE' || {_marked('object')})",
            _ONLY_DIRECT,
        ),
        _written(kept, f"labels {labels.CREATOR_USER} and {labels.ORIGIN} stay as they are"),
        _written(
            "object.spec == oldObject.spec",
            "of a direct pod a consumer changes labels and annotations only",
        ),
        refusal(
            # The API server itself takes no grace for what has no node, or has ended.
            "request.operation != 'DELETE'"
            " || request.options.?gracePeriodSeconds.orValue(1) != 0"
            " || oldObject.spec.?nodeName.orValue('') == ''"
            " || oldObject.?status.?phase.orValue('') in ['Succeeded', 'Failed']",
            "a consumer ends its pods with a grace of a second at least",
        ),
        no_finalizers(unless="request.operation == 'DELETE'"),
        _written(
            "oldObject.metadata.?finalizers.orValue([]).all(f,"
            f" f == '{labels.FINALIZER_DIRECT_POD}'"
            " || f in object.metadata.?finalizers.orValue([]))",
            f"a consumer takes off no finalizer but {labels.FINALIZER_DIRECT_POD}",
        ),
        no_owners(unless="request.operation == 'DELETE'"),
        _strange("strangeLabels", keys.STRANGE_LABELS),
        _strange("strangeAnnotations", keys.STRANGE_ANNOTATIONS),
    ]


def _strange(variable: str, said: str) -> Manifest:
    return {
        **_written(f"variables.{variable}.size() == 0", said.rstrip(": ")),
        "messageExpression": f"'{said}' + variables.{variable}.join(', ')",
    }


def _marked(root: str) -> str:
    """CEL: whether ``object`` or ``oldObject`` is a direct pod."""
    return f"{label(root, labels.MANAGED_BY)} == '{labels.MANAGED_BY_CONSUMER}'"


def _written(expression: str, message: str) -> Manifest:
    """A refusal of what a consumer writes; where it ends a pod, there is no object to look at."""
    return refusal(f"request.operation == 'DELETE' || ({expression})", message)
