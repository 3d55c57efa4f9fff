"""Clusters that find each other."""
