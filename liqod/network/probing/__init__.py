"""Probes of tunnels and paths: Liqo's through the tunnel, echoes, counters, and their verdicts."""
