"""The resources to borrow, in a command line, a viewer or a request of the handshake."""

import msgspec


class ResourceRequest(msgspec.Struct, frozen=True):
    """A request to borrow resources of a provider.

    Attributes:
        name: name of the slice and of the node; empty for the provider's id.
        class_name: class of the slice.
        resources: quantities by resource name.
        node: whether a virtual node is to be made.
        virtual_nodes: the nodes that the slice is to have (:mod:`liqod.model.peering.parts`); empty
            for those that it asks for already, and one as a whole for a new one.
    """

    name: str = ""
    class_name: str = "default"
    resources: dict[str, str] = {}
    node: bool = True
    virtual_nodes: str = ""
