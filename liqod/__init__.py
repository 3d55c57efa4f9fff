"""liqod joins Kubernetes clusters peer to peer: one daemon, one Trio process, by each cluster."""

__version__ = "0.1.0"
