"""Tests of kernels: packets, routes and rules in network namespaces, without a cluster."""
