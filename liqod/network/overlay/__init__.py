"""The overlay that leads from every node of this cluster to its gateway: its writer and agents.

The leader writes what each node is (``InternalNode``) and what all have in common
(``InternalFabric``; :mod:`.writer`, :mod:`.members`) and sets its own node up; ``liqod node`` does
the same on every other node (:mod:`.agent`), which believes nothing of it that makes no sense there
(:mod:`.checked`). The state in the kernel is one value, :mod:`liqod.network.dataplane.overlayplan`,
applied and put back by :mod:`.kernel`.

A cluster of one node has none of this, nor has one whose network is joined with no peer's.
"""
