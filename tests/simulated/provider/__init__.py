"""Lending: what consumers have and may do here, hostile ones too."""
