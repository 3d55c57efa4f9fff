"""The peers: those that exist, and the values that every component has of one."""
