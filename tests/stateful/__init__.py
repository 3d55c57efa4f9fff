"""Random sequences of what goes wrong, on embedded clusters in virtual time."""
