"""The commands, each in a file of its verb's name: ``offload namespace`` is in ``offload.py``."""
