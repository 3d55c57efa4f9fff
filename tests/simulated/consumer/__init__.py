"""Borrowing: virtual nodes, offloaded namespaces, claims and streams to pods."""
