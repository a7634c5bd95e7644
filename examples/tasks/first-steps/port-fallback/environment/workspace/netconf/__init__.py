"""Settings of a server."""
