"""Keeps the tunnels of a gateway in a cluster while its daemon's pod is replaced.

On a host programs and network namespaces outlive the daemon that made them. In a pod they end with
its container: so a second, small pod on the same node (:mod:`.server`) begins the programs and
holds the namespaces open, at the daemon's request (:mod:`.keeperclient`), by a socket that is
root's alone.
"""
