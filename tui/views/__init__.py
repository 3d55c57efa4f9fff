"""The views, one module each: a pure function from what is known of a daemon to a table."""
