"""Helpers of every task: retries and supervision, waiting, places of callers, the log, systemd."""
