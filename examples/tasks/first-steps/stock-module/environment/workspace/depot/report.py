"""Reports on the depot."""

from .stock import stock_value


def report(items):
    """Return one line on the stock."""
    return f"{len(items)} items, worth {stock_value(items)}"
