"""Reviews: chances of the draw, estimates, limits, lists, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.stats import binom, hypergeom

import nearworth as nw
from helpers.noisy_labels import blobs
from nearworth.audit.error_count import TAIL, Review, Stratified


def some_review(rng, n=600, n_asked=40, worth=1.0):
    """A review of made-up rows, a tenth to a fifth wrong, in an order that is worth something,
    nothing or less.
    """
    wrong = rng.random(n) < 0.15
    quality = 1 / (1 + np.exp(worth * 3.0 * (wrong - 0.5) + rng.normal(size=n)))
    return Review.begin(np.argsort(quality), quality, quality, n_asked), wrong


def judged(review, wrong, n, rng):
    rows = review.draw(n, rng)
    return review.answered(rows, wrong[rows])


def test_every_row_of_a_stratum_has_the_same_chance(rng):
    review, _ = some_review(rng, n=120, n_asked=20)
    draws = np.zeros(120)
    for _ in range(2000):
        draws[review.draw(20, rng)] += 1
    sizes = np.bincount(review.strata)
    chances = (20 / len(sizes) / sizes)[review.strata]
    assert len(sizes) == 4
    np.testing.assert_allclose(draws / 2000, chances, atol=5 * np.sqrt(0.25 / 2000))


@pytest.mark.parametrize("worth", [1.0, 0.0, -1.0])
def test_estimates_are_unbiased_whatever_the_order_is_worth(rng, worth):
    review, wrong = some_review(rng, worth=worth)
    estimates = np.array([judged(review, wrong, 40, rng).numbers.estimate for _ in range(800)])
    assert abs(estimates.mean() - wrong.sum()) < 4 * estimates.std() / np.sqrt(800)
    assert estimates.std() > 1


def test_a_second_draw_leaves_the_estimate_nearly_unbiased(rng):
    review, wrong = some_review(rng)
    estimates = []
    for _ in range(400):
        first = judged(review, wrong, 40, rng)
        second = judged(first, wrong, 20, rng)
        assert second.judged.sum() == 60
        assert second.strata is first.strata
        estimates.append(second.numbers.estimate)
    assert np.mean(estimates) == pytest.approx(wrong.sum(), rel=0.07)
    assert np.std(estimates) < np.std(
        [judged(review, wrong, 40, rng).numbers.estimate for _ in range(400)]
    )


def test_further_rows_go_where_they_help_most(rng):
    """To strata that a list may have, in proportion to their rows, and to those whose numbers are
    least certain.
    """
    review, wrong = some_review(rng)
    first = judged(review, wrong, 40, rng)
    numbers = first.numbers
    listed = first.likely_listed(0.1)
    rates = first.likely_rates
    spread = numbers.rows * np.sqrt((rates * (1 - rates)).mean(axis=0)) / numbers.judged
    more = first.share_out(100)
    assert 0 < listed.sum() < len(listed)
    assert more[listed].mean() > more.mean()
    most = np.argmax(spread[~listed])
    assert more[~listed][most] >= more[~listed].max() - 1
    drawn = np.bincount(first.strata[first.draw(100, rng)], minlength=len(more))
    np.testing.assert_array_equal(drawn, more)


def test_rows_are_drawn_by_lots_of_their_own(rng):
    """Two rows that change places between strata, as rounding on another machine may have it,
    change hardly any.
    """
    review, _ = some_review(rng, n=1000, n_asked=60)
    edge = int(np.argmax(np.diff(review.strata[review.order])))
    strata = review.strata.copy()
    strata[review.order[[edge, edge + 1]]] = strata[review.order[[edge + 1, edge]]]
    for seed in range(20):
        rows, others = (
            {*each.draw(60, np.random.default_rng(seed)).tolist()}
            for each in (review, replace(review, strata=strata))
        )
        assert len(rows & others) >= 58


def test_quality_rests_on_the_answers(rng):
    """The audit doubts one label in fifty; three in ten are wrong, and the answers say so."""
    wrong = rng.random(1000) < 0.3
    quality = 1 / (1 + np.exp(3.0 * (wrong - 0.5) + rng.normal(size=1000) - 4.5))
    review = Review.begin(np.argsort(quality), quality, quality, 200)
    assert (1 - quality).sum() < 0.2 * wrong.sum()
    done = judged(review, wrong, 200, rng)
    chances = done.likely_wrong()
    waiting = done.order[~done.judged[done.order]]
    np.testing.assert_array_equal(chances[done.judged], wrong[done.judged])
    assert chances.sum() == pytest.approx(done.numbers.estimate)
    none = review.answered(review.draw(60, rng), np.zeros(1000, dtype=bool)[:60])
    assert 0 < none.likely_wrong().sum() < chances.sum()
    assert (np.diff(chances[waiting]) <= 0).all()
    assert np.mean((chances - wrong) ** 2) < 0.8 * np.mean((1 - quality - wrong) ** 2)


@pytest.mark.parametrize("n_asked", range(30, 37))
def test_nearly_all_rows_of_a_small_set_may_be_judged(rng, n_asked):
    review, wrong = some_review(rng, n=36, n_asked=n_asked)
    assert (np.bincount(review.strata) > 0).all()
    done = judged(review, wrong, n_asked, rng)
    assert done.suspects(0.1)[done.wrong].all()


def test_thousands_of_answers_are_no_trouble(rng):
    review, wrong = some_review(rng, n=20_000, n_asked=18_000, worth=0.0)
    done = judged(review, wrong, 18_000, rng)
    assert done.likely_wrong().mean() == pytest.approx(wrong.mean(), rel=0.1)
    assert done.suspects(0.1)[done.wrong].all()


def test_strata_are_cut_in_half_as_answers_come(rng):
    review, wrong = some_review(rng, n=1000, n_asked=20)
    strata = [review.strata]
    for _ in range(4):
        review = judged(review, wrong, 20, rng).finer(20)
        strata.append(review.strata)
    sizes = [len(np.unique(each)) for each in strata]
    assert sizes[0] == 4 < sizes[1] < sizes[-1] <= 14
    for coarse, fine in pairwise(strata):
        within = np.unique(np.stack([fine, coarse]), axis=1)
        assert within.shape[1] == len(np.unique(fine))
        assert (np.diff(within[1]) >= 0).all()
    assert (np.diff(review.strata[review.order]) >= 0).all()
    assert review.numbers.judged.sum() == 80
    few, _ = some_review(rng, n=1000, n_asked=20)
    assert few.finer(1) is few


@pytest.mark.parametrize("worth", [1.5, 0.0])
def test_twenty_rows_at_a_time_leave_the_count_honest(rng, worth):
    review, wrong = some_review(rng, n=1000, n_asked=20, worth=worth)
    found = []
    for _ in range(30):
        done = judged(review, wrong, 20, rng)
        for _ in range(3):
            done = judged(done.finer(20), wrong, 20, rng)
        assert done.judged.sum() == 80
        found.append(done.n_errors())
    assert np.mean([c.estimate for c in found]) == pytest.approx(wrong.sum(), rel=0.2)
    assert np.mean([c.lower <= wrong.sum() <= c.upper for c in found]) > 0.8


def test_strata_of_a_list_have_few_right_labels(rng):
    review, wrong = some_review(rng, n=1500, n_asked=100, worth=2.5)
    for max_fdr in (0.1, 0.3):
        listed = judged(review, wrong, 100, rng).likely_listed(max_fdr)
        assert (np.diff(listed.astype(int)) <= 0).all()
        assert (
            0.8 * max_fdr - 0.1
            < 1 - wrong[np.isin(review.strata, np.flatnonzero(listed))].mean()
            < max_fdr + 0.12
        )


def test_the_likeliest_numbers_are_those_of_a_search():
    strata = Stratified(np.array([12, 20, 30]), np.array([4, 5, 5]), np.array([3, 1, 0]))
    for total in (4, 10, 25, 45):
        options = [t for t in product(range(3, 12), range(1, 17), range(26)) if sum(t) == total]

        def fit(numbers):
            return binom.logpmf(strata.wrong, strata.judged, np.array(numbers) / strata.rows).sum()

        found = strata.likeliest(total)
        assert found.sum() == total
        assert fit(found) > max(map(fit, options)) - 0.15


@pytest.mark.parametrize(("n", "x"), [(20, 3), (20, 0), (50, 25), (30, 30)])
def test_limits_of_one_stratum_are_those_of_the_exact_test(n, x):
    lower, upper = Stratified(np.array([200]), np.array([n]), np.array([x])).limits()
    possible = np.arange(x, 200 - n + x + 1)
    not_too_low = possible[hypergeom.sf(x - 1, 200, possible, n) > TAIL]
    not_too_high = possible[hypergeom.cdf(x, 200, possible, n) > TAIL]
    assert lower == pytest.approx(not_too_low.min(), abs=4)
    assert upper == pytest.approx(not_too_high.max(), abs=4)


@pytest.mark.parametrize("worth", [1.0, 0.0])
def test_limits_hold_the_number_and_narrow(rng, worth):
    review, wrong = some_review(rng, worth=worth)
    found = [judged(review, wrong, 40, rng).n_errors() for _ in range(50)]
    assert np.mean([count.lower <= wrong.sum() <= count.upper for count in found]) > 0.84
    more = [judged(judged(review, wrong, 40, rng), wrong, 160, rng).n_errors() for _ in range(5)]
    width = lambda counts: np.median([count.upper - count.lower for count in counts])  # noqa: E731
    assert width(more) < width(found) / 1.5


@pytest.mark.parametrize("worth", [2.5, 0.0])
def test_lists_keep_their_promise(rng, worth):
    review, wrong = some_review(rng, n=1500, n_asked=100, worth=worth)
    kept = 0
    sizes = []
    for _ in range(40):
        done = judged(review, wrong, 100, rng)
        listed = done.suspects(0.1)
        assert listed[done.wrong].all()
        assert not listed[done.judged & ~done.wrong].any()
        kept += wrong[listed].mean() >= 0.9
        sizes.append(listed.sum() - done.wrong.sum())
    assert kept >= 34
    assert (np.median(sizes) > 20) == (worth > 0)


def test_precision_has_limits_for_lists_and_for_any_rows(rng):
    review, wrong = some_review(rng, n_asked=80, worth=1.5)
    group = rng.random(600) < 0.3
    held = []
    for _ in range(30):
        done = judged(review, wrong, 80, rng)
        for listed in (done.suspects(0.3), group):
            precision = done.precision(listed)
            assert 0 <= precision.lower <= precision.estimate <= precision.upper <= 1
            held.append(precision.lower <= wrong[listed].mean() <= precision.upper)
    assert np.mean(held) > 0.87


@pytest.fixture(scope="module")
def audited():
    rng = np.random.default_rng(3)
    X, clean = blobs(rng)
    y = nw.add_label_noise(clean, 0.1, random_state=1)
    return nw.audit_labels(X, y), y != clean


def test_a_reviewed_audit_rests_on_the_answers(audited):
    audit, wrong = audited
    rows = audit.review_sample(60, random_state=4)
    assert len(set(rows.tolist())) == 60
    assert not (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(audit.review_sample(60, random_state=4), rows)
    done = audit.reviewed(rows, wrong[rows])
    assert (audit.n_errors.basis, done.n_errors.basis) == ("model", "review")
    assert done.n_errors.lower <= wrong.sum() <= done.n_errors.upper
    assert wrong[rows].sum() <= done.n_errors.lower
    np.testing.assert_array_equal(done.quality[rows], np.where(wrong[rows], 0.0, 1.0))
    others = np.setdiff1d(np.arange(len(audit)), rows)
    assert (1 - done.quality).sum() == pytest.approx(done.n_errors.estimate, rel=1e-6)
    at_first = [row for row in audit.order.tolist() if row in set(others.tolist())]
    assert [row for row in done.order.tolist() if row in set(others.tolist())] == at_first
    np.testing.assert_allclose(done.label_probabilities.sum(axis=1), 1)
    own = np.searchsorted(audit.classes, audit.given)
    np.testing.assert_allclose(
        done.label_probabilities[np.arange(len(audit)), own], done.quality, atol=1e-9
    )
    assert (done.suggested[rows] == audit.given[rows]).tolist() == (~wrong[rows]).tolist()
    best = np.searchsorted(audit.classes, done.suggested)
    np.testing.assert_allclose(
        done.label_probabilities[np.arange(len(audit)), best], done.confidence, atol=1e-9
    )
    assert set(rows[wrong[rows]]) <= set(done.suspects(max_fdr=0.1))
    assert done.why(int(rows[wrong[rows]][0])) == "judged wrong in the review"
    assert done.precision(max_fdr=0.1).estimate > 0.85
    assert "by review" in repr(done)
    assert done.precision(done.suspects(fraction=0.2)) == done.precision(fraction=0.2)


def test_all_rows_judged_leave_nothing_open(audited):
    audit, wrong = audited
    rows = audit.review_sample(len(audit))
    done = audit.reviewed(rows, wrong[rows])
    assert (done.n_errors.estimate, done.n_errors.lower, done.n_errors.upper) == (wrong.sum(),) * 3
    assert set(done.suspects(max_fdr=0.0)) == set(np.flatnonzero(wrong))
    assert done.precision(max_fdr=0.0) == (1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="0 are left"):
        done.review_sample(1)


def test_suggestions_of_suspects_are_other_labels(rng):
    """Where answers say that labels are wrong which the audit took for right, other labels are
    suggested.
    """
    X, y = blobs(rng)
    audit = nw.audit_labels(X, y)
    rows = audit.review_sample(100)
    done = audit.reviewed(rows, np.ones(100, dtype=bool))
    suspects = np.setdiff1d(done.suspects(), rows)
    assert (audit.suggested == y)[suspects].mean() > 0.9
    assert len(suspects) > 100
    assert (done.suggested != y)[suspects].all()
    assert (done.confidence[suspects] <= 1 - done.quality[suspects] + 1e-9).all()


def test_a_row_judged_right_rules_out_other_labels_of_its_copies(rng):
    X, y = blobs(rng)
    y = nw.add_label_noise(y, 0.05, random_state=1)
    twins = np.arange(40)
    audit = nw.audit_labels(np.vstack([X, X[twins]]), np.concatenate([y, (y[twins] + 1) % 3]))
    rows = audit.review_sample(len(audit) // 2)
    done = audit.reviewed(rows, rows >= len(X))
    right = np.intersect1d(rows, twins)
    assert len(right) > 5
    np.testing.assert_array_equal(done.quality[len(X) + right], 0)
    np.testing.assert_array_equal(done.suggested[len(X) + right], y[right])
    np.testing.assert_array_equal(done.label_probabilities[len(X) + right], np.eye(3)[y[right]])
    np.testing.assert_array_equal(done.confidence[len(X) + right], 1)


def test_a_target_judged_right_is_in_its_range(rng):
    X = rng.normal(size=(200, 2))
    audit = nw.audit_labels(X, X[:, 0] + 5 * (rng.random(200) < 0.1), task="regression")
    rows = audit.review_sample(60)
    done = audit.reviewed(rows, np.zeros(60, dtype=bool))
    low, high = done.suggested_range[rows].T
    assert ((low <= done.given[rows]) & (done.given[rows] <= high)).all()
    others = np.setdiff1d(np.arange(200), rows)
    np.testing.assert_array_equal(done.suggested_range[others], audit.suggested_range[others])


def judged_rows(audit):
    return {row for row in range(len(audit)) if audit.why(row).endswith("in the review")}


def test_rows_may_be_skipped(audited):
    audit, wrong = audited
    rows = audit.review_sample(60)
    done = audit.reviewed(rows[:50], wrong[rows[:50]])
    assert judged_rows(done) == set(rows[:50])


def test_a_further_sample_asks_for_other_rows(audited):
    audit, wrong = audited
    rows = audit.review_sample(40)
    first = audit.reviewed(rows, wrong[rows])
    more = first.review_sample(20)
    assert not set(rows) & set(more)
    second = first.reviewed(more, wrong[more])
    assert judged_rows(second) == {*rows, *more}
    assert (
        second.n_errors.upper - second.n_errors.lower <= first.n_errors.upper - first.n_errors.lower
    )


def test_what_is_refused(audited):
    audit, wrong = audited
    rows = audit.review_sample(20)
    with pytest.raises(
        ValueError, match=r"is_wrong must hold True or False for each of the 20 rows"
    ):
        audit.reviewed(rows, wrong[rows][:5])
    with pytest.raises(ValueError, match="is_wrong must hold True or False"):
        audit.reviewed(rows, np.full(20, 2))
    others = np.setdiff1d(np.arange(len(audit)), rows)[:1]
    for strange in (
        [*rows, rows[0]],
        [],
        [len(audit)],
        [-1],
        [1.5],
        rows[:, None],
        [*rows, *others],
    ):
        with pytest.raises(
            ValueError, match="rows must be rows that the last review_sample of this audit drew"
        ):
            audit.reviewed(strange, np.zeros(len(strange), dtype=bool))
    with pytest.raises(ValueError, match="rows to judge were asked for"):
        audit.review_sample(len(audit) + 1)
    with pytest.raises(ValueError, match="n must be 1 or more"):
        audit.review_sample(0)
    with pytest.raises(ValueError, match="precision rests on answers"):
        audit.precision(fraction=0.1)
    fresh = nw.audit_labels(np.arange(20.0)[:, None], np.arange(20) // 10)
    with pytest.raises(ValueError, match="Call review_sample first"):
        fresh.reviewed([1, 2], [True, False])


@pytest.mark.parametrize("n", [1, 3, 7, 20])
def test_small_data_and_few_answers(n):
    audit = nw.audit_labels(np.arange(20.0)[:, None], np.arange(20) // 10)
    done = audit.reviewed(audit.review_sample(n), np.zeros(n, dtype=bool))
    assert done.n_errors.lower == done.n_errors.estimate == 0
    assert (done.n_errors.upper == 0) == (n == 20)
    assert len(done.suspects(max_fdr=0.1)) == 0


def test_targets_are_reviewed_likewise(rng):
    X = rng.normal(size=(200, 2))
    y = X[:, 0].copy()
    y[:10] += 5.0
    audit = nw.audit_labels(X, y, task="regression")
    rows = audit.review_sample(40)
    done = audit.reviewed(rows, rows < 10)
    assert done.n_errors.lower <= 10 <= done.n_errors.upper


def test_the_precision_of_rows_like_which_none_was_judged_is_not_known(rng):
    review, wrong = some_review(rng)
    done = judged(review, wrong, 20, rng)
    others = ~done.judged & (rng.random(600) < 0.02)
    precision = done.precision(others)
    assert np.isnan(precision.estimate)
    assert (precision.lower, precision.upper) == (0.0, 1.0)
    assert done.precision(np.zeros(600, dtype=bool)) == (0.0, 0.0, 0.0)
