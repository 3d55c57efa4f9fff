"""Tests too long for each run: `python -m pytest -s tests/node/byhand/FILE.py`, as root."""
