"""What kernels decide: packets, routes and rules in network namespaces, without a cluster."""
