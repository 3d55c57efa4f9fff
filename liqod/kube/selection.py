"""Which objects of a kind a call is about."""

import msgspec


class Selection(msgspec.Struct, frozen=True):
    """Objects of one kind: all, or those with some labels or fields.

    Attributes:
        namespace: None for all namespaces.
        labels: label selector, such as ``app=web,tier!=test``.
        fields: field selector, such as ``spec.nodeName=n1``.
        metadata_only: ask for no more than their metadata.
    """

    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    @property
    def selective(self) -> bool:
        """Whether an object may leave it, or come into it, by a change."""
        return bool(self.labels or self.fields)

    def query(self) -> dict[str, str]:
        """The selectors as parameters of a request."""
        query = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in query.items() if value}


EVERY = Selection()
"""All objects of a kind."""
