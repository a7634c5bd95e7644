"""Small classes."""

from . import entry


@entry('Wallet(10).spend(3)', 'Wallet(5).spend(9)', 'Wallet(4).spend(4)')
class Wallet:
    """Money; spend returns what is left, no change if too little."""

    def __init__(self, amount):
        self.amount = amount

    def spend(self, price):
        if price <= self.amount:
            self.amount -= price
        return self.amount


@entry('Tank(10).fill(4)', 'Tank(10).fill(15)', 'Tank(3, 2).fill(1)')
class Tank:
    """A tank; fill returns the level, at most its size."""

    def __init__(self, size, level=0):
        self.size = size
        self.level = level

    def fill(self, amount):
        self.level = min(self.level + amount, self.size)
        return self.level


@entry('Lamp().press()', 'Lamp(True).press()', 'Lamp(False).press()')
class Lamp:
    """A lamp, off at first; press changes and returns its state."""

    def __init__(self, on=False):
        self.on = on

    def press(self):
        self.on = not self.on
        return self.on


@entry('Meter(100).cost(150, 2)', 'Meter(7).cost(7, 3)', 'Meter(0).cost(10, 1)')
class Meter:
    """A meter; cost is the use since the last reading times a price."""

    def __init__(self, last):
        self.last = last

    def cost(self, now, price):
        used = now - self.last
        self.last = now
        return used * price


@entry('Basket().add("tea", 2)', 'Basket({"tea": 1}).add("tea")', 'Basket({"egg": 6}).add("ham", 3)')
class Basket:
    """Things and counts; add returns all of them."""

    def __init__(self, things=None):
        self.things = things or {}

    def add(self, name, count=1):
        self.things[name] = self.things.get(name, 0) + count
        return self.things


@entry('Thermostat(20).heat_on(18)', 'Thermostat(20).heat_on(20)', 'Thermostat(20, 3).heat_on(18)')
class Thermostat:
    """Heat is on when it is colder than the goal by the gap, 1, or more."""

    def __init__(self, goal, gap=1):
        self.goal = goal
        self.gap = gap

    def heat_on(self, degrees):
        return degrees <= self.goal - self.gap


@entry('Lift(0).ride(3)', 'Lift(5).ride(2)', 'Lift(4).ride(4)')
class Lift:
    """A lift; ride returns the floors that it passes through, the last too."""

    def __init__(self, floor):
        self.floor = floor

    def ride(self, goal):
        step = 1 if goal > self.floor else -1
        return list(range(self.floor + step, goal + step, step))


@entry('Playlist(["a", "b"]).next(0)', 'Playlist(["a", "b"]).next(1)', 'Playlist(["x"]).next(0)')
class Playlist:
    """Songs; next returns the song after an index, then the first again."""

    def __init__(self, songs):
        self.songs = songs

    def next(self, index):
        return self.songs[(index + 1) % len(self.songs)]


@entry('Robot().go("FF")', 'Robot(5).go("FB")', 'Robot(0, 2).go("F")', 'Robot(1).go("BB")')
class Robot:
    """A robot on a line; go returns the place after F and B moves."""

    def __init__(self, place=0, step=1):
        self.place = place
        self.step = step

    def go(self, moves):
        for move in moves:
            self.place += self.step if move == "F" else -self.step
        return self.place


@entry('Jar(3).take(2)', 'Jar(3).take(5)', 'Jar(0).take(1)')
class Jar:
    """Sweets; take returns how many one gets."""

    def __init__(self, sweets):
        self.sweets = sweets

    def take(self, wanted):
        given = min(wanted, self.sweets)
        self.sweets -= given
        return given


@entry('Room(2).enter(["a"])', 'Room(2).enter(["a", "b", "c"])', 'Room(0).enter(["x"])')
class Room:
    """A room with places; enter returns who gets in, in order."""

    def __init__(self, places):
        self.places = places
        self.inside = []

    def enter(self, names):
        for name in names:
            if len(self.inside) < self.places:
                self.inside.append(name)
        return self.inside


@entry('Dial(9).turn(1)', 'Dial(3).turn(-4)', 'Dial(5).turn(2)')
class Dial:
    """A dial from 0 to 9; turn returns the new digit."""

    def __init__(self, digit):
        self.digit = digit

    def turn(self, steps):
        self.digit = (self.digit + steps) % 10
        return self.digit


@entry('Phonebook({"Al": 5}).find("al")', 'Phonebook({"Bo": 7}).find("Cy")', 'Phonebook({}).find("x")')
class Phonebook:
    """Numbers by name; find takes a name in any case, 0 for none."""

    def __init__(self, numbers):
        self.numbers = {k.lower(): v for k, v in numbers.items()}

    def find(self, name):
        return self.numbers.get(name.lower(), 0)


@entry('Plant(10).grow(3)', 'Plant(4, 2).grow(5)', 'Plant(0).grow(0)')
class Plant:
    """A plant; grow returns the height after some days."""

    def __init__(self, height, rate=1):
        self.height = height
        self.rate = rate

    def grow(self, days):
        self.height += self.rate * days
        return self.height
