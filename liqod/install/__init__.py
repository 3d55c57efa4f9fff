"""Putting liqod into a cluster and taking it out again: manifests (pure) and the verbs."""
