"""Small functions: parsing and checking."""

from . import entry


@entry('to_int("12")', 'to_int("x")', 'to_int("", 7)')
def to_int(text, default=0):
    """Return text as a number, or a default, 0 if not given."""
    try:
        return int(text)
    except ValueError:
        return default


@entry('item_at([5, 6], 1)', 'item_at([5, 6], 2)', 'item_at([], 0, "none")')
def item_at(items, index, default=None):
    """Return the item at an index, or a default."""
    try:
        return items[index]
    except IndexError:
        return default


@entry('parse_bool("yes")', 'parse_bool("No")', 'parse_bool("TRUE")', 'parse_bool("")')
def parse_bool(text):
    """Tell if a text is yes, true or on, in any case."""
    return text.lower() in ("yes", "true", "on")


@entry('numbers_in("3, 4,5")', 'numbers_in("7")', 'numbers_in("1,,2")')
def numbers_in(text):
    """Return the numbers between commas; empty places are left out."""
    return [int(part) for part in text.split(",") if part.strip()]


@entry('check_password("secret12")', 'check_password("short1")', 'check_password("nodigits")')
def check_password(word):
    """Tell if a word has 8 characters or more and a digit."""
    return len(word) >= 8 and any(c.isdigit() for c in word)


@entry('parse_range("2-5")', 'parse_range("7")', 'parse_range("3-3")')
def parse_range(text):
    """Return the numbers of "2-5", both ends included."""
    first, _, last = text.partition("-")
    last = last or first
    return list(range(int(first), int(last) + 1))


@entry('comment_of("x = 1 # one")', 'comment_of("x = 1")', 'comment_of("# all")')
def comment_of(line):
    """Return what follows # in a line, or ""."""
    before, mark, after = line.partition("#")
    return after.strip()


@entry('balanced("(())")', 'balanced("(()")', 'balanced(")(")', 'balanced("")')
def balanced(text):
    """Tell if each ( has its ) after it."""
    level = 0
    for c in text:
        if c == "(":
            level += 1
        elif c == ")":
            level -= 1
        if level < 0:
            return False
    return level == 0


@entry('check_digit("1234")', 'check_digit("99")', 'check_digit("0")')
def check_digit(code):
    """Return the last digit of the sum of the digits."""
    return sum(int(c) for c in code) % 10


@entry('query({"a": 1, "b": 2})', 'query({})', 'query({"x": "y"})')
def query(values):
    """Return a dict as "a=1&b=2"."""
    return "&".join(f"{key}={value}" for key, value in values.items())


@entry('file_size(500)', 'file_size(2048)', 'file_size(1024)', 'file_size(1023)')
def file_size(size):
    """Return bytes as "500 B", or "2 KB" from 1024 on."""
    if size < 1024:
        return f"{size} B"
    return f"{size // 1024} KB"


@entry('csv_row(["a", 1])', 'csv_row([])', 'csv_row([2, 3], ";")')
def csv_row(cells, mark=","):
    """Return the cells as one line, with commas by default."""
    return mark.join(str(cell) for cell in cells)


@entry('first_error(["ok", "error: x", "error: y"])', 'first_error(["ok"])', 'first_error(["error: z"])')
def first_error(lines):
    """Return the text of the first "error: " line, or ""."""
    for line in lines:
        if line.startswith("error: "):
            return line[7:]
    return ""


@entry('retry_delays(3)', 'retry_delays(0)', 'retry_delays(2, 5)')
def retry_delays(tries, first=1):
    """Return delays that double, from the first on."""
    delays = []
    for _ in range(tries):
        delays.append(first)
        first = first * 2
    return delays


@entry('int_sum(["1", "x", "5"])', 'int_sum([])', 'int_sum(["7"])', uses=("to_int",))
def int_sum(texts):
    """Return the sum of the texts that are numbers."""
    return sum(to_int(text) for text in texts)


@entry('all_balanced(["()", "(())"])', 'all_balanced(["("])', 'all_balanced(["()", ")("])', uses=("balanced",))
def all_balanced(texts):
    """Tell if all texts are balanced."""
    return all(balanced(text) for text in texts)
