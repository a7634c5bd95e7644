"""Wind."""


def is_storm(speed):
    """Tell if a wind in km/h is a storm."""
    return speed >= 75
