"""A peering from its beginning to its end, at rest, and under the hands of others."""
