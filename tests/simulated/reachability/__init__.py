"""Ways to the API server of a peer: dialled, in-band, by a proxy, by a relay, by a daemon."""
