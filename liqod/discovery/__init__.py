"""Clusters that discovery plugins see: the sightings kept, their verification, and peering.

``merging`` is pure: it selects the sightings that are kept, and merges those of one cluster.
``room`` runs the plugins, and ``introducing`` peers with a cluster once the operator has said so.
"""
