"""The networks of two clusters, joined: pods of each reach pods of the other by address.

The desired state is a value: the address ranges (:mod:`liqod.model.network.ranges`,
:mod:`.ipam.pools`), a peer's whole data path (:mod:`.dataplane.peerplan`) and a node's part of it
(:mod:`.dataplane.overlayplan`). :mod:`.dataplane.kernel` brings a network namespace to that state,
by the difference alone. :mod:`.tunnelcontroller` orders it for one peer, and
:mod:`.machine.peertunnel` has it made.

    ipam        ranges and addresses: Liqo's Networks, IPs and Configurations
    gateway     a peer's gateway objects, keys, Services, and the desired tunnel
    dataplane   plans as values, their text for nftables, and the kernel
    probing     probes, echoes and counters: the state of a tunnel and of its paths
    failover    the takeover by another gateway
    overlay     the paths from the other nodes to the gateway
"""
