"""The value of every training row for one query, in a dozen lines of numpy. Start reading here.

Everything else in this folder computes the same numbers for many queries at once, faster or with
less memory. The symbols are those of docs/mathematics.md. The training rows are ranked by distance
to the query, l = 1, ..., N, and the K nearest of those present vote.

    u_l    1 if the label at rank l is that of the query, else 0
    c_l    (1/K) P(fewer than K of the l - 1 nearer rows are present): what a vote is worth
    d_l    c_{l-1} - c_l: what any nearer row loses to a match at rank l (d_1 = 0, so c_0 = c_1)

    phi_i = c_i u_i - sum_{l > i} d_l u_l           the original utility
            + A u_i + B (T - u_i) - p_0 / C         and, for the soft one, this; T = sum of all u

The ranks fall into groups. A group at the ranks a + 1, ..., b has n = b - a rows and F matches.

    A run     consecutive ranks with the same u. From one match to the next nearer one both c_l
              and the sum grow by d_l, so all rows of the run have the value of the last one:
              phi(u) = c_b u - R
    A tie     rows at equal distance, of both kinds. Their order means nothing, so their value is
              the mean over all orders:
              phi(u) = (u S - (F - u) / (n - 1) D) / n - R

    S    sum of c_l over the tie: a row is at each of these ranks equally often
    D    sum of (l - 1 - a) d_l over the tie: what a match of the tie takes from the others
    R    what the groups behind this one take, each (F / n) (c_a - c_b)

`RankRule` runs this where there is no compiled code. `classify.py` and native/classify.c have the
fast form. Both add the same terms in the same order, so their values have the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from nearworth._common.types import BoolVector, FloatVector, IntVector
from nearworth.engine.problem import Problem
from nearworth.engine.rules import Rule, by_rank
from nearworth.games.classification import ClassificationGame
from nearworth.games.coefficients import sum_after
from nearworth.games.regression import RegressionGame
from nearworth.games.ties import TieBlocks


def ranked_values(
    u: BoolVector, is_first: BoolVector, game: ClassificationGame, *, matches_are_rare: bool
) -> FloatVector:
    """Values by rank, nearest first: the formula of this module.

    Parameters
    ----------
    u : array of shape (N,)
        Whether the label at each rank is that of the query.
    is_first : array of shape (N,)
        Whether a block of rows at equal distance begins at each rank.
    game : ClassificationGame
        K, the utility and the semivalue, for N players.
    matches_are_rare : bool
        Which of two equal forms of R is computed. They differ by rounding alone.

    Examples
    --------
    >>> game = ClassificationGame(n_players=3, n_neighbors=1, n_classes=2, utility="original")
    >>> u = np.array([True, False, True])
    >>> no_ties = np.array([True, True, True])
    >>> ranked_values(u, no_ties, game, matches_are_rare=False).round(3)
    array([ 0.833, -0.167,  0.333])
    """
    c = game.weights.worth
    d = game.weights.loss
    c_from_0 = np.append(c[:1], c)  # c_from_0[l] is c_l, and c_0 = c_1

    group = group_numbers(u, is_first)
    n = np.bincount(group)
    F = np.bincount(group, u)
    b = np.cumsum(n)
    a = b - n
    is_tie = (F > 0) & (n > F)

    # Sums by `bincount` start at 0 and follow the ranks, as those of compiled code.
    S = np.bincount(group, c)
    D = np.bincount(group, (np.arange(len(u)) - a[group]) * d)
    mean_worth = np.where(is_tie, S / n, c[b - 1])
    mean_loss = np.where(is_tie, D / (n * np.maximum(n - 1, 1)), 0.0)

    taken = np.zeros(len(u))
    taken[a] = F / n * (c_from_0[a] - c_from_0[b])
    if matches_are_rare:
        # Compiled code meets rare matches one by one, and adds d_l for each of them.
        in_run_of_matches = (n == F)[group]
        taken[in_run_of_matches] = d[in_run_of_matches]
    R = sum_after(taken)[b - 1]

    of_match, of_other = game.added(int(u.sum()))
    phi = u * mean_worth[group] - (F[group] - u) * mean_loss[group] - R[group]
    return np.asarray(phi + np.where(u, of_match, of_other))


def group_numbers(u: BoolVector, is_first: BoolVector) -> IntVector:
    """The group of each rank, counted from 0: see the docstring of this module."""
    block = np.cumsum(is_first) - 1
    n_matches = np.bincount(block, u)
    block_is_tie = (n_matches > 0) & (n_matches < np.bincount(block))

    # A tie begins where its block does. A run begins where u changes, and behind a tie.
    in_tie = block_is_tie[block]
    changes = np.ones(len(u), dtype=bool)
    changes[1:] = (u[1:] != u[:-1]) | (in_tie[1:] != in_tie[:-1])
    return np.cumsum(np.where(in_tie, is_first, changes)) - 1


@dataclass(frozen=True)
class RankRule(Rule):
    """All rows vote by rank: what compiled code does, where there is none, and weighted votes.

    `weights` maps an array of distances to the weights of their votes. "inverse" stands for
    1 / (1 + distance), None for equal weights.
    """

    weights: Any = None

    def __str__(self) -> str:
        return "all neighbours ranked; votes weighed by distance"

    def values(
        self, problem: Problem, query: int, rows: IntVector, keys: FloatVector
    ) -> tuple[IntVector, FloatVector]:
        ranked, sorted_keys, is_first = by_rank(problem, rows, keys)
        game = problem.game_without(problem.n_train - len(rows))
        if isinstance(game, RegressionGame):
            targets = problem.labels[None, ranked]
            query_target = problem.query_labels[query : query + 1]
            return ranked, game.values(targets, query_target, TieBlocks(is_first))[0]

        is_match = problem.labels == problem.query_labels[query]
        u = is_match[ranked]
        if self.weights is None:
            # Rows that take no part are counted here, as in compiled code.
            n_matches = int(is_match.sum())
            matches_are_rare = 2 * n_matches <= problem.n_train
            values = ranked_values(u, is_first[0], game, matches_are_rare=matches_are_rare)
            return ranked, values

        distances = problem.keys.as_distances(sorted_keys, problem.queries[query : query + 1])
        gains = np.where(u, self._vote_weights(distances[0]), 0.0)
        return ranked, game.gain_values(gains[None], TieBlocks(is_first))[0]

    def _vote_weights(self, distances: FloatVector) -> npt.NDArray[np.float64]:
        if isinstance(self.weights, str):
            return 1.0 / (1.0 + distances)
        weights = np.asarray(self.weights(distances), dtype=np.float64)
        if weights.shape != distances.shape or not np.isfinite(weights).all():
            raise ValueError(
                "weights must give one finite number for each distance of an array; it does not."
            )
        return weights
