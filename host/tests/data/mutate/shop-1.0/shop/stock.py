"""What is on the shelves."""


class Stock:
    def __init__(self):
        self.counts = {}

    def add(self, name, count=1):
        """Puts some of an article on the shelf, and returns how many there are."""
        self.counts[name] = self.counts.get(name, 0) + count
        return self.counts[name]

    def take(self, name, count=1):
        """Takes some away; no more than there are."""
        there = self.counts.get(name, 0)
        if count > there:
            raise LookupError("only %d there" % there)
        self.counts[name] = there - count
        if self.counts[name] == 0:
            del self.counts[name]
        return count

    def names(self):
        """The articles, in order."""
        return sorted(self.counts)
