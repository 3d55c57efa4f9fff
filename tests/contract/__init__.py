"""The contract that clients of a Kubernetes API server rely on, for a real one and the simulator.

Where the two differ, the simulator is wrong.
"""
