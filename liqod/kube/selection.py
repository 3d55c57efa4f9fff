"""The selection of the objects of a kind that a call is about."""

import msgspec


class Selection(msgspec.Struct, frozen=True):
    """Objects of one kind: all, or those with some labels or fields.

    Attributes:
        namespace: None for all namespaces.
        labels: label selector, such as ``app=web,tier!=test``.
        fields: field selector, such as ``spec.nodeName=n1``.
        metadata_only: ask for no more than their metadata.
        cached: take what the API server's cache has, as a rule some milliseconds old. For a list of
            what is so now the server asks etcd how far its cache is, no more often than every
            100 ms for a kind (``progressRequestPeriod`` of ``k8s.io/apiserver``): the next list or
            watch of that kind, where anything was written in between, waits for that.
    """

    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False
    cached: bool = False

    @property
    def selective(self) -> bool:
        """True if an object may leave the selection, or come into it, by a change."""
        return bool(self.labels or self.fields)

    def query(self) -> dict[str, str]:
        """The selectors as parameters of a request."""
        query = {"labelSelector": self.labels, "fieldSelector": self.fields}
        query["resourceVersion"] = "0" if self.cached else ""
        return {name: value for name, value in query.items() if value}


EVERY = Selection()
"""All objects of a kind."""
