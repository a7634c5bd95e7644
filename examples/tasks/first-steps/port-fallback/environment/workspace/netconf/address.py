"""Addresses."""

from .ports import parse_port


def split_address(text, default=80):
    """Return host and port of host:port."""
    host, _, port = text.partition(":")
    return host, parse_port(port, default)
