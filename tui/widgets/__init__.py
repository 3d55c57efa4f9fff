"""What Textual draws: the grid, the prompt and the dialogs."""
