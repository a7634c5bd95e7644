from shop import words

SEEN = []


def test_one_and_many():
    assert words.plural(1, "apple") == "1 apple"
    assert words.plural(2, "apple") == "2 apples"
    assert words.plural(2, "box", "es") == "2 boxes"


def test_short_text_stays():
    assert words.cut("abc", 3) == "abc"


def test_long_text_is_cut():
    assert words.cut("one two three", 7) == "one..."


def test_initials_of_names():
    SEEN.append("initials")
    assert words.initials("ada king lovelace") == "AKL"


def test_that_hangs_on_the_one_before():
    assert SEEN == ["initials"]
    assert words.plural(3, "pear") == "3 pears"


def test_greeting_where_german_is_spoken(monkeypatch):
    monkeypatch.setenv("SHOP_LANGUAGE", "de")
    assert words.greeting("Ada") == "Hallo Ada"


def test_letters_of_a_text():
    assert words.letters("Tea") == {"t", "e", "a"}
