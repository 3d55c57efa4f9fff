"""Keys, certificates and names: made, pinned, replaced, revoked and kept secret."""
