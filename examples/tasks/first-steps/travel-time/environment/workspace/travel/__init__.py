"""Trips by road."""
