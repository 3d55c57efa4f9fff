"""Clusters that discovery plugins see: what of it is kept, what is believed, and what follows.

``merging`` is pure: which sightings are kept, and what several of one cluster come to. ``room``
runs the plugins, and ``introducing`` is what peering with a cluster takes once the operator has
said so.
"""
