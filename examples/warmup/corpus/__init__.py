"""Which small functions do the warm-up tasks break?

Every function and class here is correct, pure and small, with a docstring that
decides what is right, and with calls as examples. None of them is a function of
examples/tasks/first-steps. The generator reads these files as text: names and lines
appear in tasks as they stand here.

Rules for an entry: about ten lines at most; double quotes; no single quote and no
backslash in the code; results that are plain data and the same on every run; helpers
named in `uses`.
"""


def entry(*examples, uses=()):
    """Mark a function or class as part of the corpus.

    `examples` are expressions that call it; `uses` names other entries it calls.
    """

    def mark(thing):
        thing.examples = examples
        thing.uses = uses
        return thing

    return mark
