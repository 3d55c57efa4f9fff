"""Requests, invitations and the handshake of two daemons."""
