"""What liqod costs, measured on real control planes."""
