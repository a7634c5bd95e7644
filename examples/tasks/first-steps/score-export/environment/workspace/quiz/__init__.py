"""A quiz."""
