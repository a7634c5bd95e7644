import pytest

from shop.prices import between, cheapest, share, total


@pytest.mark.parametrize("prices, expected", [([], 0), ([3, 4], 7), ([100], 100)])
def test_total_of_prices(prices, expected):
    assert total(prices) == expected


def test_discount_is_taken_off():
    assert total([100, 100], discount=10) == 180


def test_negative_price_is_refused():
    with pytest.raises(ValueError):
        total([-1])


def test_cheapest_of_some_and_none():
    assert cheapest([3, 1, 2]) == 1
    assert cheapest([]) is None


def test_bounds_are_included():
    prices = [1, 2, 3, 4]
    assert between(prices, 2, 3) == [2, 3]


def test_shares_differ_by_one():
    for people in (2, 3):
        shares = share(10, people)
        assert sum(shares) == 10
        assert max(shares) - min(shares) <= 1
    assert share(10, 3) == [4, 3, 3]
