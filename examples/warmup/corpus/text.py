"""Small functions: text."""

from . import entry


@entry('is_palindrome("Anna")', 'is_palindrome("abc")', 'is_palindrome("a")')
def is_palindrome(word):
    """Tell if a word reads the same backwards, in any case."""
    word = word.lower()
    return word == word[::-1]


@entry('count_vowels("banana")', 'count_vowels("sky")', 'count_vowels("Echo")')
def count_vowels(text):
    """Return how many vowels a text has."""
    return sum(1 for c in text.lower() if c in "aeiou")


@entry('mask("12345678")', 'mask("1234", 2)', 'mask("99", 4)')
def mask(code, shown=4):
    """Return stars for all but the last characters."""
    hidden = max(len(code) - shown, 0)
    return "*" * hidden + code[hidden:]


@entry('snake_case("Two Words")', 'snake_case("One")', 'snake_case("a B c")')
def snake_case(title):
    """Return the words in lower case, joined by _."""
    return "_".join(title.lower().split())


@entry('camel_case("two words")', 'camel_case("one")', 'camel_case("a b c")')
def camel_case(title):
    """Return the words joined, all but the first capitalized."""
    head, *rest = title.split()
    return head + "".join(word.capitalize() for word in rest)


@entry('quote("hi")', 'quote("")', 'quote("a", "<", ">")')
def quote(text, opening="(", closing=")"):
    """Return the text between two marks."""
    return opening + text + closing


@entry('shout("hello")', 'shout("no", 3)', 'shout("")')
def shout(text, marks=1):
    """Return the text in capitals with some !."""
    return text.upper() + "!" * marks


@entry('ellipsis("a long text", 6)', 'ellipsis("short", 9)', 'ellipsis("exact", 5)')
def ellipsis(text, width):
    """Return the text, cut to width with ... if it is longer."""
    if len(text) <= width:
        return text
    return text[:width - 3] + "..."


@entry('count_words("to be or not")', 'count_words("")', 'count_words(" one ")')
def count_words(text):
    """Return the number of words."""
    return len(text.split())


@entry('swap_name("Hopper, Grace")', 'swap_name("Ng, Al")', 'swap_name("Cher")')
def swap_name(name):
    """Return "Last, First" as "First Last"."""
    if "," not in name:
        return name
    last, first = name.split(", ")
    return f"{first} {last}"


@entry('ordinal(1)', 'ordinal(2)', 'ordinal(4)', 'ordinal(11)', 'ordinal(23)')
def ordinal(n):
    """Return 1st, 2nd, 3rd, 4th, ..."""
    if 10 <= n % 100 <= 20:
        return f"{n}th"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{ending}"


@entry('plural("cat", 2)', 'plural("cat", 1)', 'plural("box", 3, "es")', 'plural("dog", 0)')
def plural(noun, count, ending="s"):
    """Return a count and a noun that fits it."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}{ending}"


@entry('and_list(["a", "b", "c"])', 'and_list(["a"])', 'and_list([])', 'and_list(["x", "y"])')
def and_list(words):
    """Return the words as "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return ", ".join(words[:-1]) + " and " + words[-1]


@entry('vowel_share("aeb")', 'vowel_share("")', 'vowel_share("abcd")', uses=("count_vowels",))
def vowel_share(text):
    """Return the share of vowels, 0 for no text."""
    if not text:
        return 0
    return round(count_vowels(text) / len(text), 2)


@entry('caesar("abc", 1)', 'caesar("xyz", 3)', 'caesar("a b", 2)')
def caesar(text, shift):
    """Return the text with small letters moved on by a shift."""
    result = ""
    for c in text:
        if c.islower():
            c = chr((ord(c) - 97 + shift) % 26 + 97)
        result += c
    return result


@entry('run_lengths("aab")', 'run_lengths("")', 'run_lengths("abbb")')
def run_lengths(text):
    """Return [letter, count] for each run of a letter."""
    runs = []
    for c in text:
        if runs and runs[-1][0] == c:
            runs[-1][1] += 1
        else:
            runs.append([c, 1])
    return runs


@entry('indent("x", 2)', 'indent("ab")', 'indent("y", 0)')
def indent(line, width=4):
    """Return the line after some spaces, 4 by default."""
    return " " * width + line


@entry('center_text("ab", 6)', 'center_text("abc", 6)', 'center_text("long", 2)')
def center_text(text, width):
    """Return the text with equal dots left and right."""
    side = max(width - len(text), 0) // 2
    return "." * side + text + "." * side


@entry('domain("al@site.org")', 'domain("x@y.z")', 'domain("nobody")')
def domain(mail):
    """Return what follows the @ of a mail address, or ""."""
    if "@" not in mail:
        return ""
    return mail.split("@")[1]


@entry('extension("a.tar.gz")', 'extension("note.txt")', 'extension("README")')
def extension(name):
    """Return what follows the last dot, or ""."""
    parts = name.split(".")
    if len(parts) == 1:
        return ""
    return parts[-1]


@entry('is_identifier("a1")', 'is_identifier("1a")', 'is_identifier("")', 'is_identifier("a-b")')
def is_identifier(word):
    """Tell if a word has letters and digits, a letter first."""
    return word.isalnum() and word[0].isalpha()


@entry('strip_prefix("un-do", "un-")', 'strip_prefix("do", "un-")', 'strip_prefix("aab", "a")')
def strip_prefix(word, prefix):
    """Return the word without a prefix if it has it."""
    if word.startswith(prefix):
        return word[len(prefix):]
    return word


@entry('same_letters("listen", "silent")', 'same_letters("ab", "abb")', 'same_letters("Dog", "god")')
def same_letters(first, second):
    """Tell if two words have the same letters, in any case."""
    return sorted(first.lower()) == sorted(second.lower())


@entry('title_words("the cat")', 'title_words("a")', 'title_words("x yz")')
def title_words(text):
    """Return the text with each word capitalized."""
    return " ".join(word.capitalize() for word in text.split())


@entry('compare_versions("1.2", "1.10")', 'compare_versions("2.0", "1.9")', 'compare_versions("1.0", "1.0")', uses=("version_parts",))
def compare_versions(left, right):
    """Return -1, 0 or 1 for older, same or newer."""
    a, b = version_parts(left), version_parts(right)
    if a == b:
        return 0
    return 1 if a > b else -1


@entry('version_parts("1.20.3")', 'version_parts("7")', 'version_parts("0.9")')
def version_parts(version):
    """Return the numbers of a version."""
    return [int(part) for part in version.split(".")]


@entry('acronym("light as a feather")', 'acronym("world wide web")', 'acronym("")')
def acronym(phrase):
    """Return the capitals of all words with over two letters."""
    return "".join(w[0].upper() for w in phrase.split() if len(w) > 2)


@entry('repeat_join("ab", 3)', 'repeat_join("x", 1)', 'repeat_join("no", 2, "+")')
def repeat_join(text, times, mark="-"):
    """Return the text some times with a mark between."""
    return mark.join([text] * times)


@entry('frame(["ab", "c"])', 'frame(["abc"])', 'frame([])')
def frame(lines):
    """Return the lines between bars, all equally wide."""
    width = max([len(line) for line in lines], default=0)
    return ["|" + line.ljust(width) + "|" for line in lines]


@entry('key_value("a=1")', 'key_value("size = 9")', 'key_value("flag")')
def key_value(line):
    """Return [key, value] of "key=value"; no = means "yes"."""
    key, found, value = line.partition("=")
    if not found:
        return [key.strip(), "yes"]
    return [key.strip(), value.strip()]


@entry('palindromes(["anna", "bob", "cat"])', 'palindromes(["dog"])', 'palindromes(["Otto", "x"])', uses=("is_palindrome",))
def palindromes(words):
    """Return the words that read the same backwards."""
    return [word for word in words if is_palindrome(word)]


@entry('amounts({"cat": 2, "dog": 1})', 'amounts({})', 'amounts({"egg": 0})', uses=("plural",))
def amounts(counts):
    """Return counts and nouns as "2 cats, 1 dog"."""
    return ", ".join(plural(noun, count) for noun, count in counts.items())


@entry('extensions(["a.txt", "b.py"])', 'extensions(["README"])', 'extensions(["x.c", "y.h", "z.c"])', uses=("extension",))
def extensions(names):
    """Return the extensions of files, sorted, with repeats."""
    return sorted(extension(name) for name in names)


@entry('last_word("to be")', 'last_word("")', 'last_word("one")')
def last_word(text):
    """Return the last word; "" for no text."""
    if not text:
        return ""
    return text.split()[-1]


@entry('letter_at("abc", 1)', 'letter_at("abc", 3)', 'letter_at("", 0)')
def letter_at(text, index):
    """Return the letter at an index, or "" past the end."""
    if index >= len(text):
        return ""
    return text[index]


@entry('average_length(["a", "bcd"])', 'average_length([])', 'average_length(["xy"])')
def average_length(words):
    """Return the mean length of words; 0 for none."""
    if len(words) == 0:
        return 0
    return sum(len(word) for word in words) / len(words)


@entry('first_capital("ada")', 'first_capital("")', 'first_capital("B")')
def first_capital(word):
    """Return the first letter as a capital; "?" for no word."""
    if word == "":
        return "?"
    return word[0].upper()


@entry('bar(3, 6)', 'bar(1, 0)', 'bar(5, 5)')
def bar(done, full):
    """Return ten marks, # for the part done; none when full is 0."""
    if full == 0:
        return ""
    marks = 10 * done // full
    return "#" * marks + "-" * (10 - marks)
