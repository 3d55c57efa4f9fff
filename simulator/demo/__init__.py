"""The main job on an embedded default: what ``make demo`` shows."""
