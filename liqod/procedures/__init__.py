"""Procedures of an administrator on this cluster, step by step: each of them begins and ends.

The commands run them, and the daemon runs some for a viewer or for clusters that discovery saw.
Continuous tasks (controllers of :mod:`liqod.consumer` and :mod:`liqod.provider`) use none of them.
"""
