"""The networks of two clusters, joined: pods of each reach pods of the other by address.

The desired state is a value: the address ranges (:mod:`liqod.model.network.ranges`,
:mod:`.pools`), a peer's whole data path (:mod:`.peerplan`) and a node's part of it
(:mod:`.nodeplan`). :mod:`.kernel` brings a network namespace to that state, by the difference
alone.
"""
