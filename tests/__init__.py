"""All of the tests; a package so that they share the testbed and their helpers."""
