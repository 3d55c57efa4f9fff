"""Programs and manifests that make of the tree what is installed."""
