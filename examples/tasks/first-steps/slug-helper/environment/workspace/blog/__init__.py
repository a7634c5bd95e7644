"""A blog."""
