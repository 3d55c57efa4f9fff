"""``about.k8s.io``: properties of a cluster (KEP-2149), which are the whole set's, not Liqo's.

Two of them have well-known names, by which programs of a set of clusters learn which cluster this
is, and of which set.
"""

from typing import Annotated, ClassVar, Final

from liqod.apimachinery.kinds import Kind
from liqod.resources.base import AGE, Base, Column, Definition, Resource, schema

GROUP: Final = "about.k8s.io"
VERSION: Final = "v1alpha1"
"""The version that all known definitions of the kind serve."""
CLUSTER_PROPERTIES: Final = Kind(
    GROUP, VERSION, "ClusterProperty", "clusterproperties", namespaced=False
)
CLUSTER: Final = "cluster.clusterset.k8s.io"
"""Name of the property that has the cluster's id."""
CLUSTER_SET: Final = "clusterset.k8s.io"
"""Name of the property that has the id of the set: it is there while the cluster is a member."""


class ClusterPropertySpec(Base, frozen=True, omit_defaults=True):
    """The value.

    Attributes:
        value: the text.
    """

    value: Annotated[str, schema(required=True, minLength=1, maxLength=128_000)] = ""


class ClusterProperty(Resource, frozen=True, omit_defaults=True):
    """One property of the cluster."""

    KIND: ClassVar[Kind] = CLUSTER_PROPERTIES

    spec: ClusterPropertySpec = ClusterPropertySpec()


DEFINITION: Final = Definition(
    ClusterProperty,
    columns=(Column("Value", ".spec.value"), AGE),
    status=False,
    required=("spec",),
    also=("v1beta1",),
    category="multicluster",
    # The API server wants it of every group of k8s.io.
    annotations={
        "api-approved.kubernetes.io": "unapproved, liqod's definition with the fields of KEP-2149"
    },
)
"""Not among the kinds of every installation, since another program may have installed it."""
