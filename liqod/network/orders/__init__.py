"""The messages between the daemon and the machine's side of joined networks: plain values. Pure."""
