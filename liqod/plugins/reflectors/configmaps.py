"""ConfigMaps look the same at a peer.

``kube-root-ca.crt``, by which pods know this cluster's API server, goes under another name,
because every namespace there has one of its own, and goes whatever the policy. One that has that
name in this cluster stays in it: pods there would take it for the authority.
"""

from typing import Final

from liqod.apimachinery import labels
from liqod.apimachinery.kinds import CONFIG_MAPS
from liqod.model import ids
from liqod.plugins.contracts import (
    READ,
    Grant,
    Json,
    Plan,
    Reason,
    Reflector,
    RemoteKind,
    Right,
    View,
)
from liqod.plugins.crossing import manifest
from liqod.plugins.hookspecs import hookimpl

RESERVED: Final = "NameReserved"


def outgoing(config_map: Json, view: View) -> Plan:
    """The same data over there."""
    own = config_map["metadata"]["name"]
    name = ids.remote_config_map(own, view.names.consumer)
    if own == ids.root_ca_name(view.names.consumer):
        said = f"at {view.names.peer} {own} is what {labels.ROOT_CA} is here: give it another name"
        return Plan(reasons=(Reason(RESERVED, said),))
    fields = ("data", "binaryData", "immutable")
    content = {field: config_map[field] for field in fields if field in config_map}
    return Plan(remote=(manifest(CONFIG_MAPS, name, config_map, view, **content),))


REFLECTOR = Reflector(
    name="configmaps",
    kind=CONFIG_MAPS,
    outgoing=outgoing,
    remote=(RemoteKind(kind=CONFIG_MAPS),),
    always=(labels.ROOT_CA,),
    rights=(
        Right(
            group="",
            resources=("configmaps",),
            verbs=READ,
            why="ConfigMaps of offloaded namespaces are reflected",
        ),
    ),
    grant=Grant(quota={"count/configmaps": "2000"}),
)


@hookimpl
def liqod_reflectors() -> list[Reflector]:
    """ConfigMaps."""
    return [REFLECTOR]
