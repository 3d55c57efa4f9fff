"""The daemon as a process: its start, its end, its leadership and its ports."""
