"""Small functions: money and shops."""

from . import entry


@entry('split_bill(30, 3)', 'split_bill(10, 4)', 'split_bill(5, 0)')
def split_bill(amount, people):
    """Return what each pays, 0 when there is nobody."""
    if people == 0:
        return 0
    return round(amount / people, 2)


@entry('with_tip(50)', 'with_tip(20, 15)', 'with_tip(0)')
def with_tip(amount, percent=10):
    """Return the amount with a tip, 10 percent by default."""
    return amount + amount * percent / 100


@entry('coins(30)', 'coins(7)', 'coins(0)', 'coins(99)')
def coins(amount):
    """Return the fewest coins of 25, 10, 5 and 1 for an amount."""
    count = 0
    for coin in (25, 10, 5, 1):
        count += amount // coin
        amount = amount % coin
    return count


@entry('postage(50)', 'postage(100)', 'postage(101)', 'postage(900)')
def postage(grams):
    """Return 1 up to 100 grams, 2 up to 500, else 5."""
    if grams <= 100:
        return 1
    if grams <= 500:
        return 2
    return 5


@entry('change_due(20, 14)', 'change_due(5, 5)', 'change_due(3, 9)')
def change_due(paid, price):
    """Return the change; ValueError when too little is paid."""
    if paid < price:
        raise ValueError("not enough")
    return paid - price


@entry('money(3)', 'money(2.5)', 'money(0.126)', 'money(10, "kr ")')
def money(amount, sign="$"):
    """Return an amount as text such as $2.50."""
    return f"{sign}{amount:.2f}"


@entry('bulk_price(4, 9)', 'bulk_price(4, 10)', 'bulk_price(2, 20)')
def bulk_price(price, count):
    """Return price times count, half price from 10 pieces."""
    if count >= 10:
        price = price / 2
    return price * count


@entry('cheapest({"pen": 3, "ink": 2})', 'cheapest({"cup": 5})', 'cheapest({"a": 1, "b": 9})')
def cheapest(prices):
    """Return the name with the lowest price."""
    return min(prices, key=prices.get)


@entry('affordable({"pen": 3, "car": 90}, 10)', 'affordable({"a": 5}, 5)', 'affordable({}, 3)')
def affordable(prices, budget):
    """Return the names that cost at most the budget."""
    return [name for name, price in prices.items() if price <= budget]


@entry('shipping(20)', 'shipping(50)', 'shipping(80)', 'shipping(49)')
def shipping(amount, free_from=50):
    """Return 5, or 0 from an amount on, 50 by default."""
    if amount >= free_from:
        return 0
    return 5


@entry('profit([5, 8], [3, 4])', 'profit([10], [])', 'profit([], [2])')
def profit(income, costs):
    """Return all income less all costs."""
    return sum(income) - sum(costs)


@entry('months_to_save(100, 30)', 'months_to_save(90, 30)', 'months_to_save(5, 10)')
def months_to_save(goal, monthly):
    """Return the months until the goal is reached."""
    months = 0
    kept = 0
    while kept < goal:
        kept += monthly
        months += 1
    return months


@entry('price_list({"pen": 3, "ink": 2.5})', 'price_list({})', 'price_list({"cup": 10})', uses=("money",))
def price_list(prices):
    """Return one text "name: $1.00" for each name."""
    return [f"{name}: {money(price)}" for name, price in prices.items()]


@entry('parcel_costs([50, 600])', 'parcel_costs([])', 'parcel_costs([100, 101])', uses=("postage",))
def parcel_costs(weights):
    """Return the postage of all parcels."""
    return sum(postage(weight) for weight in weights)


@entry('unit_price(6, 3)', 'unit_price(5, 0)', 'unit_price(1, 4)')
def unit_price(price, pieces):
    """Return the price of one piece; None when there are none."""
    if pieces == 0:
        return None
    return price / pieces


@entry('take_out(10, 4)', 'take_out(3, 5)', 'take_out(8, 8)')
def take_out(balance, amount):
    """Return the new balance; no change when there is too little."""
    if amount > balance:
        return balance
    return balance - amount


@entry('pay_rate(100, 8)', 'pay_rate(90, 0)', 'pay_rate(0, 5)')
def pay_rate(pay, hours):
    """Return the pay of an hour; 0 for no hours."""
    if hours <= 0:
        return 0
    return pay / hours
