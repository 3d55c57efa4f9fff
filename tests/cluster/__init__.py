"""Tests against real control planes."""
