"""Procedures of an administrator on this cluster, step by step: each of them begins and ends.

The commands run them, and the daemon runs some for a viewer or for what discovery saw. Everything
that goes on (controllers of :mod:`liqod.consumer` and :mod:`liqod.provider`) knows none of them.
"""
