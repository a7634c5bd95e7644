"""Small functions: games, people, school."""

from . import entry


@entry('winner({"Al": 3, "Bo": 5})', 'winner({"Al": 1})', 'winner({"Al": 2, "Bo": 2, "Cy": 1})')
def winner(scores):
    """Return the name with most points, first one on a tie."""
    best = None
    for name in scores:
        if best is None or scores[name] > scores[best]:
            best = name
    return best


@entry('grade(95)', 'grade(70)', 'grade(69)', 'grade(20)', 'grade(90)')
def grade(points):
    """Return A from 90 points, B from 70, else C."""
    if points >= 90:
        return "A"
    if points >= 70:
        return "B"
    return "C"


@entry('passed({"Al": 4, "Bo": 7}, 5)', 'passed({"Al": 5}, 5)', 'passed({}, 1)')
def passed(marks, needed):
    """Return the names with at least the needed mark, sorted."""
    return sorted(name for name in marks if marks[name] >= needed)


@entry('drop_lowest([4, 1, 3])', 'drop_lowest([5])', 'drop_lowest([])')
def drop_lowest(marks):
    """Return the marks in order of size, without the lowest."""
    return sorted(marks)[1:]


@entry('fizz(3)', 'fizz(5)', 'fizz(15)', 'fizz(7)')
def fizz(n):
    """Return fizz for 3s, buzz for 5s, both for 15s, else n."""
    if n % 15 == 0:
        return "fizzbuzz"
    if n % 3 == 0:
        return "fizz"
    if n % 5 == 0:
        return "buzz"
    return str(n)


@entry('beats("rock", "scissors")', 'beats("paper", "scissors")', 'beats("paper", "rock")')
def beats(first, second):
    """Tell if the first hand beats the second."""
    wins = {"rock": "scissors", "paper": "rock", "scissors": "paper"}
    return wins[first] == second


@entry('ticket_price(5)', 'ticket_price(12)', 'ticket_price(40)', 'ticket_price(65)')
def ticket_price(age):
    """Return 4 under 12 and from 65 on, else 9."""
    if age < 12 or age >= 65:
        return 4
    return 9


@entry('seat(1)', 'seat(6)', 'seat(7)', 'seat(14)')
def seat(number, width=6):
    """Return [row, place] of a seat, all from 1; 6 in a row."""
    row = (number - 1) // width + 1
    place = (number - 1) % width + 1
    return [row, place]


@entry('full_name("Ada", "Byron")', 'full_name("Al", "Ng", "Dr")', 'full_name("X", "Y")')
def full_name(first, last, title=""):
    """Return title, first and last name, as far as given."""
    parts = [title, first, last]
    return " ".join(part for part in parts if part)


@entry('teams(["a", "b", "c", "d"])', 'teams(["a", "b", "c"])', 'teams([])')
def teams(names):
    """Return two teams; names go to them by turns."""
    return [names[0::2], names[1::2]]


@entry('bowling([3, 4])', 'bowling([10, 0])', 'bowling([6, 4])', 'bowling([0, 0])')
def bowling(frame):
    """Return the points of two throws, 5 more for all ten pins."""
    points = frame[0] + frame[1]
    if points == 10:
        points += 5
    return points


@entry('level(0)', 'level(99)', 'level(100)', 'level(250)')
def level(points):
    """Return the level: 1, and one more for each 100 points."""
    return points // 100 + 1


@entry('streak([1, 1, 0, 1])', 'streak([0])', 'streak([1, 0, 1, 1, 1])')
def streak(results):
    """Return the most 1s in a row."""
    best = run = 0
    for result in results:
        run = run + 1 if result == 1 else 0
        best = max(best, run)
    return best


@entry('grades({"Al": 95, "Bo": 70})', 'grades({})', 'grades({"Cy": 12})', uses=("grade",))
def grades(points):
    """Return a dict from name to grade."""
    return {name: grade(value) for name, value in points.items()}


@entry('entry_fees([5, 30])', 'entry_fees([])', 'entry_fees([70, 12])', uses=("ticket_price",))
def entry_fees(ages):
    """Return the price of the tickets of a group."""
    return sum(ticket_price(age) for age in ages)


@entry('win_rate(3, 4)', 'win_rate(0, 0)', 'win_rate(5, 5)')
def win_rate(wins, games):
    """Return the share of games won; 0 for no games."""
    if games == 0:
        return 0
    return wins / games


@entry('next_player(["a", "b"], 0)', 'next_player(["a", "b"], 1)', 'next_player([], 0)')
def next_player(players, turn):
    """Return who comes after a turn; None for no players."""
    if not players:
        return None
    return players[(turn + 1) % len(players)]
