"""The terminal program where people use it: in a real terminal and in a real browser."""
