"""Numbers that are written as text.

Whether a 64-bit float holds all of their digits, and one spelling for each number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

# Every whole number of at most so many digits is a 64-bit float.
MAX_EXACT_DIGITS = 15

# The digits of the largest 64-bit float.
MAX_DIGITS = 309

# A whole number: its sign, and its digits without leading zeros.
WHOLE = re.compile(r"\s*([+-]?)0*(\d+)\s*", re.ASCII)


def float_holds(number: str) -> bool:
    """Whether a 64-bit float has all digits of this number.

    Only whole numbers can have too many.

    >>> [float_holds(number) for number in ("9007199254740992", "9007199254740993", "0.1", "x")]
    [True, False, True, True]
    """
    whole = WHOLE.fullmatch(number)
    if whole is None or len(whole[2]) <= MAX_EXACT_DIGITS:
        return True
    if len(whole[2]) > MAX_DIGITS:
        return False
    digits = int(whole[2])
    try:
        return int(float(digits)) == digits
    except OverflowError:
        return False


def floats_hold(numbers: Iterable[str | None]) -> bool:
    """Whether 64-bit floats have all digits of all of these numbers."""
    # Nearly all numbers are short or have a point, which is quickly seen.
    return all(
        number is None or len(number) <= MAX_EXACT_DIGITS or "." in number or float_holds(number)
        for number in numbers
    )


def spelled(number: str) -> str:
    """The same text for every way to write a number, so that equal ids compare equal as text.

    A whole number that a 64-bit float cannot hold keeps all of its digits. Text that is not a
    number raises the ValueError of `float`.

    >>> [spelled(number) for number in ("7", "007", "7.0", "-0", "900719925474099301")]
    ['7.0', '7.0', '7.0', '0.0', '900719925474099301']
    """
    if float_holds(number):
        # The sum turns -0.0 into 0.0.
        return repr(float(number) + 0.0)
    whole = WHOLE.fullmatch(number)
    # `float_holds` is false for whole numbers only.
    assert whole is not None
    sign = "-" if whole[1] == "-" else ""
    return sign + whole[2]
