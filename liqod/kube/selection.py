"""Selects the objects of a kind for a call."""

import msgspec


class Selection(msgspec.Struct, frozen=True):
    """Objects of one kind: all, or those with some labels or fields.

    Attributes:
        namespace: None for all namespaces.
        labels: label selector, such as ``app=web,tier!=test``.
        fields: field selector, such as ``spec.nodeName=n1``.
        metadata_only: request their metadata only.
        cached: accept the API server's cache, as a rule some milliseconds old. For a list of
            the current state the server requests the progress of its cache from etcd, at most every
            100 ms for a kind (``progressRequestPeriod`` of ``k8s.io/apiserver``): the next list or
            watch of that kind waits for that if anything was written in between.
    """

    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False
    cached: bool = False

    @property
    def selective(self) -> bool:
        """True if a change can move an object into or out of the selection."""
        return bool(self.labels or self.fields)

    def query(self) -> dict[str, str]:
        """The selectors as parameters of a request."""
        query = {"labelSelector": self.labels, "fieldSelector": self.fields}
        query["resourceVersion"] = "0" if self.cached else ""
        return {name: value for name, value in query.items() if value}


EVERY = Selection()
"""All objects of a kind."""
