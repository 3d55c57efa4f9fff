"""Tests against a real kubelet."""
