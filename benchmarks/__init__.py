"""The cost of liqod, measured on real control planes."""
