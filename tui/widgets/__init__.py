"""Textual's widgets: the grid, the prompt and the dialogs."""
