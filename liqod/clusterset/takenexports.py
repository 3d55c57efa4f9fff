"""The exports of one peer that this cluster takes, by the marks that confirm them to the peer.

Each is read anew only when it has changed: a namespace may have more than a hundred, of which one
endpoint changes.
"""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from liqod.model.clusterset.admission import Scope
from liqod.model.clusterset.byway import of_told
from liqod.model.clusterset.exchange import confirmed


class _Read(NamedTuple):
    """An export as it was read.

    Attributes:
        digest: of its text.
        namespace: in which it was read.
        mark: its mark; empty where it is not taken.
    """

    digest: bytes
    namespace: str
    mark: str


class TakenExports:
    """The exports, as they were read last."""

    def __init__(self) -> None:
        self._read: dict[str, dict[str, _Read]] = {}
        """By the name of the exchange that tells them, and their own in it."""

    def forget(self, exchange: str) -> None:
        """Drop the exports of an exchange that has ended."""
        self._read.pop(exchange, None)

    def of(
        self, exchange: str, namespace: str, told: Mapping[str, str], scope: Scope
    ) -> dict[str, str]:
        """The marks of the exports that are taken, by name.

        Args:
            exchange: the name of the exchange.
            namespace: the one that it is of.
            told: all exports that it tells, by name.
            scope: what the peer may say.
        """
        before, found = self._read.pop(exchange, {}), dict[str, _Read]()
        if namespace not in scope.namespaces:
            return {}
        for name, text in told.items():
            digest = hashlib.sha256(text.encode()).digest()
            known = before.get(name)
            # A third cluster's is taken for as long as its signature counts.
            if known is None or known[:2] != (digest, namespace) or of_told(name)[1]:
                known = _Read(digest, namespace, confirmed(text, namespace, name, scope))
            found[name] = known
        if found:
            self._read[exchange] = found
        return {name: each.mark for name, each in found.items() if each.mark}
