"""Embedded clusters, the demo and the benchmarks as such."""
