"""Removal curves: the score of a model as the least, or the most, valuable rows are removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from nearworth._common.frames import make_frame
from nearworth._common.types import FloatMatrix, FloatVector, IntVector
from nearworth._common.warnings import warn_user
from nearworth.inputs.parameters import as_generator, is_real, whole_number
from nearworth.inputs.targets import check_targets
from nearworth.results.plots import plot_removal

FRACTIONS = tuple(percent / 100 for percent in range(0, 55, 5))


@dataclass(frozen=True, eq=False, repr=False)
class RemovalCurve:
    """Scores of a model trained without a growing share of its rows. Made by `removal_curve`.

    `lowest` and `highest` hold the score when the rows of lowest or highest value are removed first, `random` the
    scores of random removal, one row per repeat; all over `fractions`. NaN where the model could not be fitted.
    """

    fractions: FloatVector
    lowest: FloatVector
    highest: FloatVector
    random: FloatMatrix
    scoring: str

    @property
    def random_mean(self) -> FloatVector:
        """Mean score of random removal."""
        return np.asarray(self.random.mean(axis=0))

    @property
    def random_spread(self) -> FloatVector:
        """Standard deviation of the score over the repeats of random removal; 0 for a single repeat."""
        return np.asarray(self.random.std(axis=0, ddof=1 if len(self.random) > 1 else 0))

    def to_frame(self, backend: str | None = None) -> Any:
        """A pandas, polars or pyarrow frame with one row per fraction."""
        return make_frame({name: column.copy() for name, column in self._columns().items()}, backend)

    def plot(self, ax: Any = None) -> Any:
        """Draw the curve on matplotlib axes, made if not given. Needs matplotlib: pip install 'nearworth[plot]'."""
        return plot_removal(self, ax)

    def _columns(self) -> dict[str, FloatVector]:
        by_value = {"fraction": self.fractions, "lowest": self.lowest, "highest": self.highest}
        return by_value | {"random_mean": self.random_mean, "random_spread": self.random_spread}

    def __repr__(self) -> str:
        lines = [f"{'removed':>8}  {'lowest':>8}  {'highest':>8}  {'at random':>17}   ({self.scoring})"]
        rows = zip(*self._columns().values(), strict=True)
        lines += [f"{f:8.0%}  {low:8.4f}  {high:8.4f}  {m:8.4f} ± {s:6.4f}" for f, low, high, m, s in rows]
        return "\n".join(lines)


def removal_curve(
    v: Any,
    model: Any,
    X: Any,
    y: Any,
    X_val: Any,
    y_val: Any,
    *,
    fractions: Any = FRACTIONS,
    n_repeats: int = 10,
    scoring: Any = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
) -> RemovalCurve:
    """Score of a model as the rows of lowest, or of highest, value are removed, against removal at random.

    If the values are good, removing rows of low value keeps or raises the score, and removing rows of high value lowers
    it faster than random removal. Use other validation data here than the values were computed on, or the comparison
    flatters them.

    Parameters
    ----------
    v : Valuation or array
        One value per row of X.
    model : scikit-learn estimator
        Cloned and fitted anew for every point of the curve.
    X, y, X_val, y_val
        What the model is trained on, rows as in v, and what it is scored on.
    fractions : sequence of float, default 0, 0.05, ..., 0.5
        Shares of rows to remove, from 0 to below 1, increasing. At least one row always stays.
    n_repeats : int, default=10
        How many random orders to average.
    scoring : str or callable, optional
        As in scikit-learn's `check_scoring`; by default the model's own score.
    n_jobs : int, optional
        Fits to run at once, as in joblib.
    random_state : int, generator or None
        Seeds the random orders, also among rows of equal value.
    """
    from joblib import Parallel, delayed
    from sklearn.base import clone
    from sklearn.metrics import check_scoring
    from sklearn.utils import _safe_indexing, indexable

    shares = _check_fractions(fractions)
    whole_number(1)("n_repeats", n_repeats)
    X, y = indexable(X, y)
    values = check_targets(v, "v", len(y))
    scorer = check_scoring(model, scoring=scoring)
    counts = np.minimum(np.round(shares * len(values)).astype(int), len(values) - 1)

    def score(rows: IntVector) -> float:
        labels = _safe_indexing(y, rows)
        try:
            fitted = clone(model).fit(_safe_indexing(X, rows), labels)
        except ValueError:
            if len(np.unique(np.asarray(labels))) > 1:
                raise
            return float("nan")
        return float(scorer(fitted, X_val, y_val))

    # Rows that stay, by order and number removed; with none removed all orders are alike, and one fit does for all.
    orders = list(_orders(values, n_repeats, random_state))
    keys = [[(i if count else 0, count) for count in counts.tolist()] for i in range(len(orders))]
    rest = {(i, count): np.sort(orders[i][count:]) for row in keys for i, count in row}
    found = dict(zip(rest, Parallel(n_jobs=n_jobs)(delayed(score)(rows) for rows in rest.values()), strict=True))
    scores = np.array([[found[key] for key in row] for row in keys], dtype=np.float64)
    if np.isnan(scores).any():
        warn_user("Where only one class was left the model could not be fitted; the score there is NaN.")
    return RemovalCurve(shares, scores[0], scores[1], scores[2:], _scoring_name(model, scoring))


def _orders(values: FloatVector, n_repeats: int, random_state: Any) -> Iterator[IntVector]:
    """Orders of removal: lowest value first, highest value first, then random ones; ties are in random order."""
    rng = as_generator(random_state)
    for sign in (1.0, -1.0):
        shuffled = rng.permutation(len(values))
        yield shuffled[np.argsort(sign * values[shuffled], kind="stable")]
    for _ in range(n_repeats):
        yield rng.permutation(len(values))


def _scoring_name(model: Any, scoring: Any) -> str:
    from sklearn.base import is_classifier, is_regressor

    if scoring is None:
        return "accuracy" if is_classifier(model) else "R²" if is_regressor(model) else "score"
    return scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")


def _check_fractions(fractions: Any) -> FloatVector:
    shares = list(fractions)
    if not shares or not all(is_real(share) and 0 <= share < 1 for share in shares) or sorted(set(shares)) != shares:
        raise ValueError(f"fractions must be increasing numbers from 0 to below 1; got {shares!r}.")
    return np.array(shares, dtype=np.float64)
