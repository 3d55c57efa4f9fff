"""Joined networks: addresses, gateways, overlay and tests, without a kernel."""
