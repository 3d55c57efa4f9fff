"""Connections between two daemons: TLS, websockets, the hand-shake, and the channel after it."""
