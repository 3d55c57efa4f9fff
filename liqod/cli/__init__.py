"""The command line: one module for each group of verbs, each importing only what it needs."""
