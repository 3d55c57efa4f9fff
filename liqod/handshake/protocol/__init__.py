"""The protocol of the handshake without sockets, clocks and tasks: messages, proofs and states."""
