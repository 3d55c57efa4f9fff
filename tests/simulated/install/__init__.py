"""Installation, upgrades, and the change from Liqo to liqod."""
