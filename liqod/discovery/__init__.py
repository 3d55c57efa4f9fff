"""Clusters that discovery plugins see: the sightings kept, their verification, and peering.

``sightings`` is pure: it selects the sightings that are kept, and merges those of one cluster.
``discoverymanager`` runs the plugins, and ``configuredpeering`` peers with a cluster once the
operator has configured it.
"""
