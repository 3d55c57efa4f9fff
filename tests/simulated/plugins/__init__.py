"""Plugins in whole daemons."""
