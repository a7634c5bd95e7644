"""What does a careful agent write to repair a task?

Texts only: the issue as a user reports it, and the replies of a demonstration, each a
short thought and one fenced bash block, in the protocol of the agent loop.
"""

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && git diff"

RETURNS = (
    "`{call}`{where} returns {got}, but it should return {want}.",
    "`{call}`{where} gives {got}. Expected {want}.",
    "`{call}`{where} returns {got} instead of {want}.",
    "`{call}`{where} is {got}, but {want} is right.",
    "`{name}`{where} is wrong: `{call}` should return {want}, not {got}.",
    "I get {got} from `{call}`{where}. It should be {want}.",
)
RAISES = (
    "`{call}`{where} raises {got}, but it should return {want}.",
    "`{call}`{where} fails with {got}. It should return {want}.",
    "`{name}`{where} is broken: `{call}` raises {got}. Expected {want}.",
)
SHOULD_RAISE = (
    "`{call}`{where} returns {got}, but it should raise {want}.",
    "`{call}`{where} gives {got} where {want} is expected.",
)
BEHAVIOUR = ("`{name}` does not work as it should: {doc}", "`{name}` is wrong. {doc}")
NEW_FILE = (
    "Add `{path}` with `{signature}`: {doc} `{call}` should return {want}.",
    "`{path}` is missing. Write it with `{signature}`: {doc} So `{call}` is {want}.",
)

LOOK = ("I read the module first.", "Let me look at the code.", "First I look at the file.", "I start with the code.")
FIND = ("I look for the function.", "First I find where it is defined.", "Where is it defined?")
FOUND = ("It is in `{path}`. I read it.", "I read `{path}`.", "Here it is. I read the file.")
FAULT = ("Line {n} {why}.", "The fault is on line {n}: it {why}.", "I see it: line {n} {why}.", "Line {n} is wrong: it {why}.")
SECOND = ("There is a second fault: line {n} {why}.", "Line {n} is wrong too: it {why}.")
STILL = ("It is still wrong. Line {n} {why}.", "That is not {want} yet: line {n} {why}.")
CHECK = ("Now I check the call.", "Let me check it.", "I run the call to check.", "Does it work now?")
DONE = ("The result is right. I hand in.", "It works now. I hand in.", "That is right. I hand in my change.")
UNCHECKED = ("Now the code is right. I hand in.", "That fixes it. I hand in.", "The fix is done. I hand in.")
LIST = ("I look at the package first.", "Let me see what is there.")
WRITE = ("I write the new module.", "The module is missing, so I write it.")
TRACK = ("The new file has to be in the diff.", "A new file is not in `git diff` yet, so I add it.")


def issue(rng, entry, symptom, path=None):
    """Return the text of an issue; without a path it does not say where."""
    got, want = symptom.got, symptom.want
    forms = SHOULD_RAISE if want.raised else RAISES if got.raised else RETURNS
    if path is None and not entry.is_class and rng.random() < 0.2:
        forms = BEHAVIOUR
    where = f" in `{path}`" if path else ""
    doc = entry.doc.replace("Return ", "It should return ", 1).replace("Tell if", "It should tell if", 1)
    return rng.choice(forms).format(
        call=symptom.call, name=entry.name, where=where, got=got.text(), want=want.text(), doc=doc
    )


def reply(thought, command):
    """Return one reply in the protocol."""
    return f"{thought}\n\n```bash\n{command}\n```"


def look(rng, path, pattern=None):
    """Return the replies that show the module, with a search when a pattern is given."""
    show = f"cat -n {path}"
    if pattern is None:
        return [reply(rng.choice(LOOK), show)]
    return [reply(rng.choice(FIND), f'grep -rn "{pattern}" .'), reply(rng.choice(FOUND).format(path=path), show)]


def write_lines(path, number, lines, over):
    """Return the command that writes lines over line `number`, or before it."""
    text = "\\n".join(lines)
    return f"sed -i '{number}{'c' if over else 'i'}\\{text}' {path}"


def fix(rng, path, number, mutation, forms=FAULT, want=""):
    """Return the reply that undoes a mutation at a line (from 1) of a module."""
    thought = rng.choice(forms).format(n=number, why=mutation.why, want=want)
    return reply(thought, write_lines(path, number, mutation.good, over=bool(mutation.bad)))


def check(rng, module, entry, call):
    """Return the reply that runs a call."""
    return reply(rng.choice(CHECK), f"python3 -c 'from {module} import {entry.name}; print({call})'")


def submit(rng, checked):
    """Return the last reply."""
    return reply(rng.choice(DONE if checked else UNCHECKED), SUBMIT)


def new_file(rng, path, source):
    """Return the replies that write a module and put it in the diff."""
    write = f"cat > {path} << 'EOF'\n{source}\nEOF"
    track = f"git add -N {path}"
    if rng.random() < 0.5:
        return [reply(rng.choice(WRITE), f"{write}\n{track}")]
    return [reply(rng.choice(WRITE), write), reply(rng.choice(TRACK), track)]
