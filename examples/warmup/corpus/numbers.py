"""Small functions: numbers."""

from . import entry


@entry('distance_to_zero(-4)', 'distance_to_zero(3)', 'distance_to_zero(0)')
def distance_to_zero(value):
    """Return how far a number is from zero."""
    if value < 0:
        return -value
    return value


@entry('sign_of(-3)', 'sign_of(0)', 'sign_of(8)')
def sign_of(value):
    """Return -1, 0 or 1."""
    if value > 0:
        return 1
    if value < 0:
        return -1
    return 0


@entry('factorial(0)', 'factorial(1)', 'factorial(4)', 'factorial(5)')
def factorial(n):
    """Return the product of the numbers from 1 to n."""
    if n == 0:
        return 1
    return n * factorial(n - 1)


@entry('fibonacci(0)', 'fibonacci(1)', 'fibonacci(6)', 'fibonacci(9)')
def fibonacci(n):
    """Return number n of 0, 1, 1, 2, 3, 5, ..."""
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@entry('common_divisor(12, 18)', 'common_divisor(7, 3)', 'common_divisor(5, 0)')
def common_divisor(a, b):
    """Return the greatest common divisor."""
    while b != 0:
        a, b = b, a % b
    return a


@entry('common_multiple(4, 6)', 'common_multiple(3, 5)', 'common_multiple(8, 2)', uses=("common_divisor",))
def common_multiple(a, b):
    """Return the least common multiple."""
    return a * b // common_divisor(a, b)


@entry('is_prime(7)', 'is_prime(9)', 'is_prime(1)', 'is_prime(2)', 'is_prime(4)')
def is_prime(n):
    """Tell if n is a prime number."""
    if n < 2:
        return False
    for d in range(2, n):
        if n % d == 0:
            return False
    return True


@entry('primes_below(10)', 'primes_below(3)', 'primes_below(14)', uses=("is_prime",))
def primes_below(limit):
    """Return the primes less than limit."""
    return [n for n in range(2, limit) if is_prime(n)]


@entry('digit_sum(123)', 'digit_sum(9)', 'digit_sum(4070)')
def digit_sum(number):
    """Return the sum of the digits."""
    result = 0
    while number > 0:
        result += number % 10
        number = number // 10
    return result


@entry('divisors(6)', 'divisors(7)', 'divisors(12)', 'divisors(1)')
def divisors(number):
    """Return the numbers that divide a number, itself included."""
    return [d for d in range(1, number + 1) if number % d == 0]


@entry('is_perfect(6)', 'is_perfect(8)', 'is_perfect(28)', uses=("divisors",))
def is_perfect(number):
    """Tell if a number is half the sum of its divisors."""
    return sum(divisors(number)) == 2 * number


@entry('round_to(17, 5)', 'round_to(12, 5)', 'round_to(30, 10)', 'round_to(15, 10)')
def round_to(value, step):
    """Return the multiple of step nearest to value, halves up."""
    return (value + step // 2) // step * step


@entry('midpoint(2, 8)', 'midpoint(-4, 4)', 'midpoint(5, 6)')
def midpoint(low, high):
    """Return the number halfway between two numbers."""
    return (low + high) / 2


@entry('is_between(5, 1, 9)', 'is_between(1, 1, 9)', 'is_between(9, 1, 9)', 'is_between(0, 1, 9)')
def is_between(value, low, high):
    """Tell if low <= value <= high."""
    return low <= value and value <= high


@entry('collatz_steps(1)', 'collatz_steps(6)', 'collatz_steps(8)')
def collatz_steps(n):
    """Return the steps to 1: halve even numbers, else 3n + 1."""
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@entry('triangle_number(1)', 'triangle_number(4)', 'triangle_number(10)')
def triangle_number(n):
    """Return 1 + 2 + ... + n."""
    return n * (n + 1) // 2


@entry('to_binary(5)', 'to_binary(8)', 'to_binary(0)', 'to_binary(13)')
def to_binary(number):
    """Return a number in binary digits."""
    if number == 0:
        return "0"
    digits = ""
    while number > 0:
        digits = str(number % 2) + digits
        number = number // 2
    return digits


@entry('from_binary("101")', 'from_binary("0")', 'from_binary("1110")')
def from_binary(digits):
    """Return the number of some binary digits."""
    number = 0
    for digit in digits:
        number = number * 2 + int(digit)
    return number


@entry('safe_divide(6, 3)', 'safe_divide(5, 0)', 'safe_divide(1, 4)')
def safe_divide(a, b):
    """Return a / b, or 0 when b is 0."""
    if b == 0:
        return 0
    return a / b


@entry('percent_change(50, 75)', 'percent_change(80, 60)', 'percent_change(0, 5)', 'percent_change(20, 20)')
def percent_change(old, new):
    """Return the change in percent; 0 when old is 0."""
    if old == 0:
        return 0
    return (new - old) / old * 100


@entry('square_root(16)', 'square_root(17)', 'square_root(0)', 'square_root(24)')
def square_root(number):
    """Return the whole part of the square root."""
    root = 0
    while (root + 1) * (root + 1) <= number:
        root += 1
    return root


@entry('wrap_angle(370)', 'wrap_angle(-90)', 'wrap_angle(360)', 'wrap_angle(45)')
def wrap_angle(degrees):
    """Return an angle from 0 up to but not 360."""
    return degrees % 360


@entry('binary_width(5)', 'binary_width(8)', 'binary_width(0)', uses=("to_binary",))
def binary_width(number):
    """Return how many binary digits a number has."""
    return len(to_binary(number))


@entry('largest_digit_sum([19, 23])', 'largest_digit_sum([5])', 'largest_digit_sum([111, 40])', uses=("digit_sum",))
def largest_digit_sum(numbers):
    """Return the largest sum of digits of some numbers."""
    return max(digit_sum(number) for number in numbers)
