"""How many neighbours must be ranked for a certified error, whatever the labels.

The error of a truncation is at most the largest distance from a value to an end of its interval. Here is its maximum
over all label sequences, so that K* can be chosen before any label is seen. Afterwards the intervals of the actual
labels are narrower, often by far.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import partial

from nearworth.games.blocks import Blocks
from nearworth.games.classification import ClassificationGame
from nearworth.games.truncation import Tail, far_constant


def candidates_for_error(game: ClassificationGame, max_error: float, tail: Tail = "local") -> int:
    """The smallest number of ranked neighbours, 1 to N, whose `worst_error` is at most `max_error`."""
    if not max_error >= 0.0:
        raise ValueError(f"max_error must be a number of at least 0; got {max_error!r}.")
    error = partial(_worst_error, game, Blocks(game.weights), tail)
    choices = range(1, game.n_players + 1)
    return choices[bisect_left(choices, True, key=lambda k: error(k) <= max_error)]


def worst_error(game: ClassificationGame, n_candidates: int, tail: Tail = "local") -> float:
    """The largest certified error over all label sequences, when `n_candidates` neighbours are ranked.

    Attained for "minimax" and "paper". The values of "local" and "mean" may come close to an end of their interval, so
    for them it is the interval's width, twice the error of "minimax".
    """
    return _worst_error(game, Blocks(game.weights), tail, n_candidates)


def _worst_error(game: ClassificationGame, blocks: Blocks, tail: Tail, k: int) -> float:
    if k >= game.n_players:
        return 0.0
    if tail == "paper":
        return _of_constant(game, blocks, k)
    width = _widest(blocks, k, game.n_players)
    return width / 2 if tail == "minimax" else width


def _widest(blocks: Blocks, k: int, n: int) -> float:
    """Of the loss when half of the far points match (it is concave in their number), of a far point when one does."""
    far = float(blocks.windows.total(k + 1, n))
    half = blocks.lost(k, n, (n - k) // 2)
    return max(far, float(half.upper - half.lower)) if k else far


def _of_constant(game: ClassificationGame, blocks: Blocks, k: int) -> float:
    """A lone match at rank k (or 1) is worth the most above the constant, a lone non-match there the most below it."""
    n, rank, constant = game.n_players, max(k, 1), far_constant(game)
    lone_match = blocks.worth[rank] + game.added(1)[0]
    lone_other = game.added(n - 1)[1] - blocks.windows.total(rank, n)
    return float(max(lone_match - constant, constant - lone_other))
