"""A stopwatch."""
