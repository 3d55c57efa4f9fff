"""``peering.liqod.io``: the exported Services of one namespace, as two clusters tell each other.

The consumer's exports are in the ``spec`` and the provider's in the ``status``, so the object
crosses as a ResourceSlice does. An export is a text, as JSON: the receiver reads each one by
itself, and one that it refuses keeps no other from being read.
"""

from typing import Annotated, ClassVar, Final

from liqod.apimachinery.kinds import Kind
from liqod.resources.base import AGE, Base, Column, Definition, Resource, schema
from liqod.resources.peering import GROUP, VERSION

SERVICE_EXCHANGES: Final = Kind(GROUP, VERSION, "ServiceExchange", "serviceexchanges")
MOST_EXPORTS: Final = 128
"""Exports of one namespace that a cluster tells."""
MOST_NAMESPACES: Final = 32
"""Namespaces of which a consumer exchanges exports with one provider."""
LONGEST: Final = 64 << 10
"""Characters of one export, of some 600 endpoints."""
LONGEST_MARK: Final = 64
"""Characters of the mark by which an export is confirmed."""

_Exports = Annotated[
    dict[str, Annotated[str, schema(maxLength=LONGEST)]], schema(maxProperties=MOST_EXPORTS)
]

_Confirmed = Annotated[
    dict[str, Annotated[str, schema(maxLength=LONGEST_MARK)]], schema(maxProperties=MOST_EXPORTS)
]


class ExchangeSpec(Base, frozen=True, omit_defaults=True, rename="camel"):
    """The consumer's part.

    Attributes:
        namespace: the namespace, which has the same name in both clusters.
        exports: the consumer's exports, by the name of the Service.
        confirmed: the marks of the provider's exports that the consumer has taken.
    """

    namespace: Annotated[str, schema(maxLength=63)] = ""
    exports: _Exports = {}
    confirmed: _Confirmed = {}


class ExchangeStatus(Base, frozen=True, rename="camel"):
    """The provider's part.

    Attributes:
        shared: whether the provider shares this namespace, too.
        exports: the provider's exports, by the name of the Service.
        confirmed: the marks of the consumer's exports that the provider has taken.
    """

    shared: bool = False
    exports: _Exports = {}
    confirmed: _Confirmed = {}


class ServiceExchange(Resource, frozen=True, omit_defaults=True, rename="camel"):
    """The exported Services of one namespace, of a consumer and of its provider."""

    KIND: ClassVar[Kind] = SERVICE_EXCHANGES

    spec: ExchangeSpec = ExchangeSpec()
    status: ExchangeStatus | None = None


DEFINITION: Final = Definition(
    ServiceExchange, columns=(Column("Namespace", ".spec.namespace"), AGE)
)
