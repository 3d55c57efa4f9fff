"""The protocol of the hand-shake without sockets, clocks and tasks: messages, proofs and states."""
