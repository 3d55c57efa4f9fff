"""The inspector of a running daemon, over its socket and over TCP."""
