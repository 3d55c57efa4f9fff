"""The current state of the nodes' paths to the gateway, as the leader keeps it to be shown."""

from liqod.model.view.networkfacts import NodeWay


class NodeReachability:
    """The current state of the paths; the leader keeps it up to date.

    Attributes:
        nodes: the paths of all nodes but the gateway, by name.
    """

    def __init__(self) -> None:
        self.nodes: tuple[NodeWay, ...] = ()
