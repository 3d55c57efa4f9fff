"""liqod joins Kubernetes clusters peer to peer: one daemon, in one Trio process, beside each cluster."""

__version__ = "0.1.0"
