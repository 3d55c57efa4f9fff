"""The networks of two clusters, joined: pods of each reach pods of the other by address.

What is wanted is a value: the address ranges (:mod:`.ranges`, :mod:`.pools`), a peer's whole data
path (:mod:`.peerplan`) and a node's part of it (:mod:`.nodeplan`). :mod:`.kernel` makes a network
namespace be as such a value says, by the difference alone.
"""
