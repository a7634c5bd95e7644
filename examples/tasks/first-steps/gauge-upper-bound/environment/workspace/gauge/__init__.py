"""Readings of gauges."""
