"""Small functions: shapes and maps."""

from . import entry


@entry('area(3, 4)', 'area(5)', 'area(2, 0)')
def area(width, height=None):
    """Return the area of a box; a square with one side."""
    if height is None:
        height = width
    return width * height


@entry('perimeter(3, 4)', 'perimeter(1, 1)', 'perimeter(10, 2)')
def perimeter(width, height):
    """Return the length of all four sides."""
    return 2 * (width + height)


@entry('is_right_angled(3, 4, 5)', 'is_right_angled(2, 3, 4)', 'is_right_angled(6, 8, 10)')
def is_right_angled(a, b, c):
    """Tell if sides a, b and the longest, c, make a right angle."""
    return a * a + b * b == c * c


@entry('steps_between([0, 0], [3, 4])', 'steps_between([2, 2], [1, 5])', 'steps_between([1, 1], [1, 1])')
def steps_between(start, end):
    """Return the steps on a grid, along x and then y."""
    return abs(start[0] - end[0]) + abs(start[1] - end[1])


@entry('move([1, 1], "up")', 'move([0, 0], "left")', 'move([2, 3], "stay")')
def move(point, way):
    """Return the point one step on; y grows upwards."""
    x, y = point
    if way == "up":
        return [x, y + 1]
    if way == "left":
        return [x - 1, y]
    return [x, y]


@entry('inside([1, 1], 2, 2)', 'inside([2, 0], 2, 2)', 'inside([0, -1], 2, 2)', 'inside([0, 0], 1, 1)')
def inside(point, width, height):
    """Tell if a point lies on a board; 0 is its first row and column."""
    x, y = point
    return 0 <= x < width and 0 <= y < height


@entry('bounding_box([[1, 5], [4, 2]])', 'bounding_box([[3, 3]])', 'bounding_box([[0, 0], [-2, 7]])')
def bounding_box(points):
    """Return [least x, least y, most x, most y]."""
    xs = [x for x, y in points]
    ys = [y for x, y in points]
    return [min(xs), min(ys), max(xs), max(ys)]


@entry('neighbours(0, 0)', 'neighbours(2, 5)', 'neighbours(-1, 3)')
def neighbours(x, y):
    """Return the cells right, left, above (y + 1) and below."""
    return [[x + 1, y], [x - 1, y], [x, y + 1], [x, y - 1]]


@entry('scale([1, 2], 3)', 'scale([4, 0], 2)', 'scale([5, 5])')
def scale(point, factor=1):
    """Return the point with both parts times a factor."""
    return [point[0] * factor, point[1] * factor]


@entry('turn_right("N")', 'turn_right("W")', 'turn_right("E")')
def turn_right(way):
    """Return the way after a turn to the right."""
    ways = "NESW"
    return ways[(ways.index(way) + 1) % 4]


@entry('count_cells(["#.", "##"])', 'count_cells(["..", ".."])', 'count_cells([])')
def count_cells(rows):
    """Return how many # a map has."""
    return sum(row.count("#") for row in rows)


@entry('walk([0, 0], ["up", "up"])', 'walk([3, 1], ["left"])', 'walk([2, 2], [])', uses=("move",))
def walk(point, ways):
    """Return the point after some steps."""
    for way in ways:
        point = move(point, way)
    return point


@entry('floor_space([[3, 4], [1, 2]])', 'floor_space([])', 'floor_space([[5, 5]])', uses=("area",))
def floor_space(rooms):
    """Return the area of all rooms; a room is [width, height]."""
    return sum(area(width, height) for width, height in rooms)
