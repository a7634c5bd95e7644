"""Tax on prices."""


def tax(net, rate):
    """Return the tax on net; rate is in percent."""
    return net * rate / 100


def gross(net, rate):
    """Return the price with tax."""
    return net - tax(net, rate)
