"""Helpers of every task: retries and walls, waiting, places of callers, the log, systemd."""
