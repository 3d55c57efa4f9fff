"""Commands as people type them, against embedded clusters."""
