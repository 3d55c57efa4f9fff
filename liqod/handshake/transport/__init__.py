"""Connections between two daemons: TLS, websockets, the handshake, and the channel after it."""
