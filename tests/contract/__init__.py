"""What clients of a Kubernetes API server rely on, asked of a real one and of the simulator.

Where the two differ, the simulator is wrong.
"""
