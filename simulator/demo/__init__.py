"""The main job on an embedded default: what ``liqod demo`` shows."""
