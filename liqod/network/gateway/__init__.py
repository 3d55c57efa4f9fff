"""Gateways of a peer as objects: servers and clients, keys, Services, and the desired tunnel."""
