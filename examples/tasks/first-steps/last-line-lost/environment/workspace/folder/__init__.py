"""Fold text."""
