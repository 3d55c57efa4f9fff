"""The machine's side of joined networks: it has the kernel and the sockets, and no API server.

It is ordered by values (:mod:`liqod.network.orders`) and reports by values. It goes on by its last
orders while no daemon is connected.
"""
