"""Small functions: dates and times."""

from . import entry


@entry('to_seconds(1, 30)', 'to_seconds(0, 5)', 'to_seconds(10, 0)')
def to_seconds(minutes, seconds):
    """Return minutes and seconds in seconds."""
    return minutes * 60 + seconds


@entry('hours_minutes(135)', 'hours_minutes(59)', 'hours_minutes(60)')
def hours_minutes(minutes):
    """Return minutes as text such as 2h15."""
    hours = minutes // 60
    rest = minutes % 60
    return f"{hours}h{rest:02d}"


@entry('days_in_month(2)', 'days_in_month(4)', 'days_in_month(12)', 'days_in_month(11)')
def days_in_month(month):
    """Return the days of a month, 28 for month 2."""
    if month == 2:
        return 28
    if month in (4, 6, 9, 11):
        return 30
    return 31


@entry('day_of_year(3, 1)', 'day_of_year(1, 31)', 'day_of_year(12, 31)', uses=("days_in_month",))
def day_of_year(month, day):
    """Return the number of a day in a year, from 1."""
    return sum(days_in_month(m) for m in range(1, month)) + day


@entry('is_weekend("sat")', 'is_weekend("mon")', 'is_weekend("Sun")')
def is_weekend(day):
    """Tell if a short day name is of the weekend, in any case."""
    return day.lower() in ("sat", "sun")


@entry('week_number(1)', 'week_number(7)', 'week_number(8)', 'week_number(30)')
def week_number(day):
    """Return the week of a day of the year; days 1-7 are week 1."""
    return (day - 1) // 7 + 1


@entry('add_hours(22, 5)', 'add_hours(9, 3)', 'add_hours(0, 24)')
def add_hours(hour, more):
    """Return the hour of the day some hours later."""
    return (hour + more) % 24


@entry('date_text(2024, 3, 9)', 'date_text(1999, 12, 31)', 'date_text(5, 1, 1)')
def date_text(year, month, day):
    """Return a date such as 2024-03-09."""
    return f"{year:04d}-{month:02d}-{day:02d}"


@entry('century(1900)', 'century(1901)', 'century(2024)')
def century(year):
    """Return the century of a year; 1901-2000 is the 20th."""
    return (year + 99) // 100


@entry('age_on(1990, 6, 2020, 5)', 'age_on(1990, 6, 2020, 6)', 'age_on(2000, 1, 2001, 12)')
def age_on(born, month, year, now):
    """Return the age in a month; it grows in the month of birth."""
    age = year - born
    if now < month:
        age -= 1
    return age


@entry('quarter(1)', 'quarter(3)', 'quarter(4)', 'quarter(12)')
def quarter(month):
    """Return the quarter of a month, 1 to 4."""
    return (month - 1) // 3 + 1


@entry('clock_12(0)', 'clock_12(13)', 'clock_12(12)', 'clock_12(9)')
def clock_12(hour):
    """Return an hour as 12 am, 1 pm, ..."""
    half = "am" if hour < 12 else "pm"
    return f"{(hour - 1) % 12 + 1} {half}"


@entry('work_days(["mon", "sat", "tue"])', 'work_days(["sun"])', 'work_days([])', uses=("is_weekend",))
def work_days(days):
    """Return how many days are not of the weekend."""
    return sum(1 for day in days if not is_weekend(day))


@entry('same_quarter(1, 3)', 'same_quarter(3, 4)', 'same_quarter(12, 10)', uses=("quarter",))
def same_quarter(first, second):
    """Tell if two months are of one quarter."""
    return quarter(first) == quarter(second)
