"""Small functions: dictionaries."""

from . import entry


@entry('invert({"a": 1, "b": 2})', 'invert({})', 'invert({"x": "y"})')
def invert(table):
    """Return a dict from values to keys."""
    return {value: key for key, value in table.items()}


@entry('group_by_length(["a", "bb", "c"])', 'group_by_length([])', 'group_by_length(["xy"])')
def group_by_length(words):
    """Return a dict from length to the words of that length."""
    groups = {}
    for word in words:
        groups.setdefault(len(word), []).append(word)
    return groups


@entry('add_counts({"a": 1}, {"a": 2, "b": 3})', 'add_counts({}, {"x": 1})', 'add_counts({"y": 4}, {})')
def add_counts(left, right):
    """Return the sums of two dicts of counts."""
    result = dict(left)
    for key, count in right.items():
        result[key] = result.get(key, 0) + count
    return result


@entry('pick({"a": 1, "b": 2}, ["a"])', 'pick({"a": 1}, ["z"])', 'pick({}, [])')
def pick(table, keys):
    """Return the part of a dict with some keys."""
    return {key: table[key] for key in keys if key in table}


@entry('without_key({"a": 1, "b": 2}, "a")', 'without_key({"a": 1}, "z")', 'without_key({}, "a")')
def without_key(table, unwanted):
    """Return the dict without one key."""
    return {k: v for k, v in table.items() if k != unwanted}


@entry('best_key({"a": 3, "b": 7})', 'best_key({"x": 1})', 'best_key({})')
def best_key(scores):
    """Return the key with the largest value, None for no keys."""
    if not scores:
        return None
    return max(scores, key=scores.get)


@entry('lookup({"a": {"b": 5}}, ["a", "b"])', 'lookup({"a": 1}, ["z"])', 'lookup({}, [])')
def lookup(table, path):
    """Return what lies at a path of keys, or None."""
    for key in path:
        if key not in table:
            return None
        table = table[key]
    return table


@entry('index_words(["a", "b", "a"])', 'index_words([])', 'index_words(["x", "x"])')
def index_words(words):
    """Return a dict from word to the places where it is."""
    places = {}
    for index, word in enumerate(words):
        places.setdefault(word, []).append(index)
    return places


@entry('count_values({"a": 1, "b": 1, "c": 2})', 'count_values({})', 'count_values({"x": "y"})')
def count_values(table):
    """Return how often each value is in a dict."""
    counts = {}
    for value in table.values():
        counts[value] = counts.get(value, 0) + 1
    return counts


@entry('rename_key({"a": 1}, "a", "b")', 'rename_key({"a": 1}, "z", "b")', 'rename_key({"x": 1, "y": 2}, "y", "w")')
def rename_key(table, old, new):
    """Return the dict with one key named anew."""
    return {new if key == old else key: value for key, value in table.items()}


@entry('changed_keys({"a": 1, "b": 2}, {"a": 1, "b": 3})', 'changed_keys({"a": 1}, {})', 'changed_keys({}, {})')
def changed_keys(before, after):
    """Return the keys whose value is not the same after."""
    return [key for key in before if before[key] != after.get(key)]


@entry('with_default({"a": None, "b": 2}, 0)', 'with_default({"x": None}, "no")', 'with_default({}, 1)')
def with_default(table, default):
    """Return the dict with a default for each None."""
    return {k: default if v is None else v for k, v in table.items()}


@entry('sorted_by_value({"a": 3, "b": 1})', 'sorted_by_value({"x": 1, "y": 2, "z": 0})', 'sorted_by_value({})')
def sorted_by_value(table):
    """Return the keys, smallest value first."""
    return sorted(table, key=lambda key: table[key])


@entry('nested_sum({"a": [1, 2], "b": [3]})', 'nested_sum({})', 'nested_sum({"x": []})')
def nested_sum(table):
    """Return a dict from key to the sum of its list."""
    return {key: sum(values) for key, values in table.items()}


@entry('smallest_key({"b": 1, "a": 2})', 'smallest_key({})', 'smallest_key({"z": 0})')
def smallest_key(table):
    """Return the first key of the alphabet; "" for no keys."""
    if not table:
        return ""
    return min(table)


@entry('value_range({"a": 3, "b": 8})', 'value_range({})', 'value_range({"x": 5})')
def value_range(table):
    """Return [least, most] of the values; [0, 0] for none."""
    if len(table) == 0:
        return [0, 0]
    return [min(table.values()), max(table.values())]


@entry('increment({"a": 1}, "a")', 'increment({"a": 1}, "b")', 'increment({}, "x")')
def increment(counts, key):
    """Return the counts with one more of a key; a new key is left out."""
    if key not in counts:
        return counts
    return {**counts, key: counts[key] + 1}
