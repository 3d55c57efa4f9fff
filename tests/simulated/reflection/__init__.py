"""The reflection engine between two embedded clusters."""
