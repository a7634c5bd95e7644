"""Small functions: lists."""

from . import entry


@entry('second_largest([4, 9, 7])', 'second_largest([1, 2])', 'second_largest([8, 3, 5, 6])')
def second_largest(values):
    """Return the second largest value."""
    ordered = sorted(values)
    return ordered[-2]


@entry('running_sum([1, 2, 3])', 'running_sum([5, -2])', 'running_sum([])')
def running_sum(values):
    """Return the sums of the first one, two, ... values."""
    sums = []
    current = 0
    for value in values:
        current += value
        sums.append(current)
    return sums


@entry('without_repeats([1, 2, 1, 3])', 'without_repeats(["b", "a", "b"])', 'without_repeats([])')
def without_repeats(items):
    """Return the items, each once, in order."""
    seen = []
    for item in items:
        if item not in seen:
            seen.append(item)
    return seen


@entry('chunks([1, 2, 3, 4, 5], 2)', 'chunks([1, 2, 3], 3)', 'chunks([], 2)')
def chunks(items, size):
    """Return the items in lists of a size; the last may be short."""
    return [items[i:i + size] for i in range(0, len(items), size)]


@entry('rotate([1, 2, 3, 4], 1)', 'rotate([1, 2, 3], 2)', 'rotate([5], 0)')
def rotate(items, steps):
    """Return the items moved to the left by some steps."""
    return items[steps:] + items[:steps]


@entry('is_sorted([1, 2, 2])', 'is_sorted([3, 1])', 'is_sorted([])', 'is_sorted([1, 3, 2])')
def is_sorted(values):
    """Tell if no value is less than the one before."""
    for i in range(1, len(values)):
        if values[i] < values[i - 1]:
            return False
    return True


@entry('differences([1, 4, 9])', 'differences([5, 3])', 'differences([7])')
def differences(values):
    """Return each value less the one before it."""
    return [values[i] - values[i - 1] for i in range(1, len(values))]


@entry('position([4, 5, 6], 5)', 'position([4, 5], 9)', 'position([3, 3], 3)')
def position(items, wanted):
    """Return the index of an item, or -1."""
    for index, item in enumerate(items):
        if item == wanted:
            return index
    return -1


@entry('count_above([1, 5, 9], 4)', 'count_above([4, 4], 4)', 'count_above([], 1)')
def count_above(values, limit):
    """Return how many values are greater than limit."""
    count = 0
    for value in values:
        if value > limit:
            count += 1
    return count


@entry('every_other([1, 2, 3, 4, 5])', 'every_other(["a", "b"])', 'every_other([])')
def every_other(items):
    """Return the first, third, fifth, ... item."""
    return items[::2]


@entry('interleave([1, 2], [8, 9])', 'interleave(["a"], ["b"])', 'interleave([], [])')
def interleave(first, second):
    """Return items of two lists by turns, first list first."""
    result = []
    for a, b in zip(first, second):
        result.extend([a, b])
    return result


@entry('flatten([[1, 2], [3]])', 'flatten([[], [4]])', 'flatten([])')
def flatten(rows):
    """Return the items of all rows in one list."""
    items = []
    for row in rows:
        items.extend(row)
    return items


@entry('split_at([1, 2, 3, 4], 1)', 'split_at([1, 2, 3], 3)', 'split_at([1, 2], 0)')
def split_at(items, index):
    """Return the items before an index and the rest."""
    return [items[:index], items[index:]]


@entry('last_items([1, 2, 3, 4], 2)', 'last_items([1, 2], 5)', 'last_items([7, 8, 9], 1)')
def last_items(items, count):
    """Return the last items, at most count of them."""
    start = max(len(items) - count, 0)
    return items[start:]


@entry('largest_gap([1, 4, 9])', 'largest_gap([5, 5])', 'largest_gap([3])', 'largest_gap([2, 9, 10])')
def largest_gap(values):
    """Return the largest step up between neighbours, or 0."""
    gap = 0
    for left, right in zip(values, values[1:]):
        gap = max(gap, right - left)
    return gap


@entry('median([3, 1, 2])', 'median([4, 1, 3, 2])', 'median([7])')
def median(values):
    """Return the middle value, or the mean of the middle two."""
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2 == 1:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


@entry('spread([4, 9, 2])', 'spread([5])', 'spread([])')
def spread(values):
    """Return the largest less the smallest value; 0 for none."""
    if not values:
        return 0
    return max(values) - min(values)


@entry('all_equal([1, 1, 1])', 'all_equal([1, 2])', 'all_equal([])')
def all_equal(items):
    """Tell if all items are the same."""
    return all(item == items[0] for item in items)


@entry('sum_of_squares([1, 2, 3])', 'sum_of_squares([-4])', 'sum_of_squares([])')
def sum_of_squares(values):
    """Return the sum of the squares."""
    return sum(value ** 2 for value in values)


@entry('dot([1, 2], [3, 4])', 'dot([0, 5], [9, 2])', 'dot([], [])')
def dot(left, right):
    """Return the sum of the products of pairs."""
    return sum(a * b for a, b in zip(left, right))


@entry('keep_longest([[1], [2, 3], []])', 'keep_longest([[5]])', 'keep_longest([[1, 2], [9]])')
def keep_longest(rows):
    """Return the row with most items."""
    return max(rows, key=len)


@entry('binary_search([1, 3, 5, 7], 5)', 'binary_search([1, 3], 2)', 'binary_search([4], 4)', 'binary_search([1, 3, 5, 7], 7)')
def binary_search(values, wanted):
    """Return the index in sorted values, or -1."""
    low, high = 0, len(values) - 1
    while low <= high:
        middle = (low + high) // 2
        if values[middle] == wanted:
            return middle
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return -1


@entry('pairs_with_sum([1, 2, 3, 4], 5)', 'pairs_with_sum([2, 2], 4)', 'pairs_with_sum([1], 2)')
def pairs_with_sum(values, wanted):
    """Return the pairs of values that add up to wanted."""
    pairs = []
    for i, a in enumerate(values):
        for b in values[i + 1:]:
            if a + b == wanted:
                pairs.append([a, b])
    return pairs


@entry('column([[1, 2], [3, 4]], 0)', 'column([[1, 2], [3, 4]], 1)', 'column([], 0)')
def column(rows, index):
    """Return one column of a table."""
    return [row[index] for row in rows]


@entry('transpose([[1, 2], [3, 4]])', 'transpose([[1, 2, 3]])', 'transpose([[5]])')
def transpose(rows):
    """Return a table with rows and columns changed over."""
    width = len(rows[0])
    return [[row[i] for row in rows] for i in range(width)]


@entry('diagonal([[1, 2], [3, 4]])', 'diagonal([[7]])', 'diagonal([[1, 0, 0], [0, 2, 0], [0, 0, 3]])')
def diagonal(rows):
    """Return the items from top left to bottom right."""
    return [rows[i][i] for i in range(len(rows))]


@entry('countdown(3)', 'countdown(1)', 'countdown(0)')
def countdown(start):
    """Return start, ..., 2, 1 in a list."""
    if start <= 0:
        return []
    return [start] + countdown(start - 1)


@entry('depth([1, [2, [3]]])', 'depth([])', 'depth([1, 2])', 'depth([[1], 2])')
def depth(items):
    """Return how deep lists are nested, 1 for a flat list."""
    deepest = 0
    for item in items:
        if isinstance(item, list):
            deepest = max(deepest, depth(item))
    return deepest + 1


@entry('deep_sum([1, [2, [3]]])', 'deep_sum([])', 'deep_sum([4, [5]])')
def deep_sum(items):
    """Return the sum of all numbers in nested lists."""
    result = 0
    for item in items:
        result += deep_sum(item) if isinstance(item, list) else item
    return result


@entry('append_once("a", ["b"])', 'append_once("a", ["a"])', 'append_once("x")')
def append_once(item, items=None):
    """Return the items with one more if it is not there yet."""
    items = [] if items is None else list(items)
    if item not in items:
        items.append(item)
    return items


@entry('merge_sorted([1, 4], [2, 3])', 'merge_sorted([], [5])', 'merge_sorted([2, 9], [1])')
def merge_sorted(left, right):
    """Return the values of two sorted lists, sorted."""
    if not left:
        return right
    if not right:
        return left
    if left[0] <= right[0]:
        return left[:1] + merge_sorted(left[1:], right)
    return right[:1] + merge_sorted(left, right[1:])


@entry('highest([3, 8])', 'highest([])', 'highest([-2])')
def highest(values):
    """Return the largest value; 0 for none."""
    if not values:
        return 0
    return max(values)


@entry('head_and_rest([1, 2, 3])', 'head_and_rest([])', 'head_and_rest(["a"])')
def head_and_rest(items):
    """Return [first item, others]; [None, []] for none."""
    if not items:
        return [None, []]
    return [items[0], items[1:]]


@entry('most_common([1, 2, 2])', 'most_common([])', 'most_common(["a", "b"])')
def most_common(items):
    """Return the item that is there most often; None for none."""
    if not items:
        return None
    return max(items, key=items.count)


@entry('shares([1, 3])', 'shares([0, 0])', 'shares([5])')
def shares(values):
    """Return each value over the sum; all 0 when the sum is 0."""
    whole = sum(values)
    if whole == 0:
        return [0] * len(values)
    return [value / whole for value in values]


@entry('average_gap([1, 3, 8])', 'average_gap([4])', 'average_gap([])')
def average_gap(values):
    """Return the mean step between neighbours; 0 for under two."""
    if len(values) < 2:
        return 0
    return (values[-1] - values[0]) / (len(values) - 1)
