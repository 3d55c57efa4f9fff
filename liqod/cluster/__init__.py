"""This cluster: its values, its id, its networks, its pods and its tenant namespaces."""
