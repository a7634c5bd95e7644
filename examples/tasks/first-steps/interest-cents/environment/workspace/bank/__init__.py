"""Savings."""
