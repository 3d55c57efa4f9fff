"""The data path of tunnels and nodes: values, their text for nftables, and the kernel."""
