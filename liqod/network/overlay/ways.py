"""How the nodes' ways to the gateway are now, as the leader keeps it for those who show it."""

from liqod.model.view.networkfacts import NodeWay


class Ways:
    """What is known of them now; the leader keeps it so.

    Attributes:
        nodes: the ways of all nodes but the gateway, by name.
    """

    def __init__(self) -> None:
        self.nodes: tuple[NodeWay, ...] = ()
