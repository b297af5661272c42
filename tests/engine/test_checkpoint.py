"""Checkpoints and going on: the same bits as in one go, whatever happens in between."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import nearworth as nw
from helpers.runs import KINDS, InterruptedByUserError, assert_same_valuation, data, interrupt_after


@pytest.mark.parametrize("kind", KINDS)
def test_an_interrupted_run_goes_on_to_the_same_bits(kind, rng, tmp_path):
    X, y, X_val, y_val = data(rng)
    weights = rng.uniform(0, 2, len(y_val))
    expected = nw.KNNShapley(3, n_jobs=1, **KINDS[kind]).fit(X, y).value(X_val, y_val, weights)
    resumed = 0
    for points in (150, 280):
        est = nw.KNNShapley(3, n_jobs=1, progress=interrupt_after(points), **KINDS[kind]).fit(X, y)
        with pytest.raises(InterruptedByUserError):
            est.value(X_val, y_val, weights, checkpoint=tmp_path)
    for n_jobs in (2, 1):  # the second time everything is there
        est = nw.KNNShapley(3, n_jobs=n_jobs, progress=False, **KINDS[kind]).fit(X, y)
        valuation = est.value(X_val, y_val, weights, checkpoint=tmp_path)
        assert_same_valuation(valuation, expected)
        assert valuation.resumed > resumed
        resumed = valuation.resumed
    assert resumed == len(y_val)


def test_valuing_each_other_and_standard_errors_of_owners_survive_too(rng, tmp_path):
    X, y, _, _ = data(rng, n_train=200)
    expected = nw.KNNShapley(3, standard_errors=True).fit(X, y).value()
    est = nw.KNNShapley(3, standard_errors=True, n_jobs=1, progress=interrupt_after(100)).fit(X, y)
    with pytest.raises(InterruptedByUserError):
        est.value(checkpoint=tmp_path)
    est.progress = None
    valuation = est.value(checkpoint=tmp_path)
    assert valuation.resumed >= 64
    assert_same_valuation(valuation, expected)
    assert valuation.sum_by(y) == expected.sum_by(y)
    with pytest.raises(ValueError, match="differs in the weights"):
        est.value(sample_weight=rng.uniform(1, 2, 200), checkpoint=tmp_path)


def test_a_finished_run_returns_at_once(rng, tmp_path, monkeypatch):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3).fit(X, y)
    expected = est.value(X_val, y_val, checkpoint=tmp_path / "new" / "folder")
    monkeypatch.setattr("nearworth.engine.value.run_steps", None)
    again = est.value(X_val, y_val, checkpoint=tmp_path / "new" / "folder")
    assert_same_valuation(again, expected)
    assert (expected.resumed, again.resumed) == (0, len(y_val))


def test_progress_begins_where_the_checkpoint_ends(rng, tmp_path):
    X, y, X_val, y_val = data(rng)
    with pytest.raises(InterruptedByUserError):
        nw.KNNShapley(n_jobs=1, progress=interrupt_after(200)).fit(X, y).value(
            X_val, y_val, checkpoint=tmp_path
        )
    calls = []
    est = nw.KNNShapley(n_jobs=1, progress=lambda *call: calls.append(call)).fit(X, y)
    valuation = est.value(X_val, y_val, checkpoint=tmp_path)
    assert calls[0] == (valuation.resumed, 330)
    assert calls[-1] == (330, 330)


def test_other_runs_are_refused_with_what_differs(rng, tmp_path):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3).fit(X, y)
    est.value(X_val, y_val, checkpoint=tmp_path)
    kept = (tmp_path / "progress.part").read_bytes()
    for parameters, message in (
        ({"n_neighbors": 4}, "n_neighbors: 3 and 4"),
        ({"standard_errors": True}, "standard_errors: False and True"),
        ({"n_candidates": 5}, "n_candidates: None and 5"),
    ):
        other = nw.KNNShapley(**{"n_neighbors": 3} | parameters).fit(X, y)
        with pytest.raises(ValueError, match=f"belongs to another run; it differs in .*{message}"):
            other.value(X_val, y_val, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="differs in the validation data"):
        est.value(X_val[::-1], y_val, checkpoint=tmp_path)
    with pytest.raises(ValueError, match="differs in the validation data"):
        est.value(X_val, y_val, rng.uniform(1, 2, len(y_val)), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="differs in the training data"):
        nw.KNNShapley(3).fit(X, y[::-1]).value(X_val, y_val, checkpoint=tmp_path)
    assert (tmp_path / "progress.part").read_bytes() == kept
    est.set_params(n_jobs=1, max_memory="1GB", progress=False)  # these may change
    assert est.value(X_val, y_val, checkpoint=tmp_path).resumed == len(y_val)


def test_a_damaged_checkpoint_is_refused(rng, tmp_path):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3).fit(X, y)
    est.value(X_val, y_val, checkpoint=tmp_path)
    path = tmp_path / "progress.part"
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[whole.index(b"NUMPY") + int(rng.integers(500))] ^= 1 << int(rng.integers(8))
    for damaged in (bytes(flipped), whole[: int(rng.integers(len(whole)))]):
        path.write_bytes(damaged)
        with pytest.raises(
            ValueError, match=r"checkpoint: .* or it is damaged: .* Delete it to begin anew"
        ):
            est.value(X_val, y_val, checkpoint=tmp_path)


@pytest.mark.parametrize("interval", [0, 1000])
def test_a_full_disk_does_not_end_the_run(interval, rng, tmp_path, monkeypatch):
    X, y, X_val, y_val = data(rng)
    with pytest.raises(InterruptedByUserError):
        nw.KNNShapley(n_jobs=1, progress=interrupt_after(150)).fit(X, y).value(
            X_val, y_val, checkpoint=tmp_path
        )
    kept = (tmp_path / "progress.part").read_bytes()

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.warns(UserWarning, match="could not be written .*No space left") as caught:
            valuation = (
                nw.KNNShapley(n_jobs=1)
                .fit(X, y)
                .value(X_val, y_val, checkpoint=tmp_path, checkpoint_interval=interval)
            )
    assert len(caught) == 1
    assert_same_valuation(valuation, nw.KNNShapley().fit(X, y).value(X_val, y_val))
    assert (tmp_path / "progress.part").read_bytes() == kept
    assert {p.name for p in tmp_path.iterdir()} == {"progress.part", "lock"}  # no scraps


def test_a_disk_that_is_really_full(rng, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk], capture_output=True
    ).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        X, y, X_val, y_val = data(rng)
        with pytest.raises(InterruptedByUserError):
            nw.KNNShapley(n_jobs=1, progress=interrupt_after(150)).fit(X, y).value(
                X_val, y_val, checkpoint=disk / "c"
            )
        kept = (disk / "c" / "progress.part").read_bytes()
        with open(disk / "ballast", "wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(4096))
        est = nw.KNNShapley(n_jobs=1).fit(X, y)
        with pytest.warns(UserWarning, match="could not be written .*No space left"):
            valuation = est.value(X_val, y_val, checkpoint=disk / "c")
        assert_same_valuation(valuation, est.value(X_val, y_val))
        assert (disk / "c" / "progress.part").read_bytes() == kept
        (disk / "ballast").unlink()
        assert 128 <= est.value(X_val, y_val, checkpoint=disk / "c").resumed < 330
        assert est.value(X_val, y_val, checkpoint=disk / "c").resumed == 330
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("jump", [-1e6, 1e6])
def test_a_clock_that_is_set_does_not_matter(jump, rng, tmp_path, monkeypatch):
    """Neither to when a checkpoint is written nor to what is in it."""
    X, y, X_val, y_val = data(rng)
    written = []
    now = [1e9]
    save = nw.Partial.save
    monkeypatch.setattr(
        nw.Partial, "save", lambda part, path: (written.append(part.n_points), save(part, path))
    )

    def clock():
        now[0] += jump
        return now[0]

    monkeypatch.setattr(time, "time", clock)
    for interval, folder in ((1000, "seldom"), (0, "often")):
        est = nw.KNNShapley(3, n_jobs=1, progress=lambda *_: time.sleep(0.01)).fit(X, y)
        valuation = est.value(
            X_val, y_val, checkpoint=tmp_path / folder, checkpoint_interval=interval
        )
        assert_same_valuation(valuation, nw.KNNShapley(3).fit(X, y).value(X_val, y_val))
        assert est.value(X_val, y_val, checkpoint=tmp_path / folder).resumed == 330
        assert (len(written) == 1) == (folder == "seldom")
        written.clear()


def test_what_cannot_be_kept_is_refused(rng, tmp_path):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3).fit(X, y)
    with pytest.raises(
        ValueError, match="checkpoint keeps sums, not single values: leave contributions=None"
    ):
        est.value(X_val, y_val, contributions="all", checkpoint=tmp_path)
    with pytest.raises(ValueError, match=r"checkpoint must be a folder; .* is a file"):
        est.value(X_val, y_val, checkpoint=__file__)
    with pytest.raises(TypeError, match="checkpoint must be the path of a folder; got 3"):
        est.value(X_val, y_val, checkpoint=3)


SCRIPT = """
import sys, time
import numpy as np
import nearworth as nw
rng = np.random.default_rng(5)
X, y, X_val, y_val = (rng.integers(0, 9, s) for s in ((3000, 4), 3000, (2500, 4), 2500))
def slow(done, total):
    time.sleep({pause})
    print(done, flush=True)
est = nw.KNNShapley(3, standard_errors=True, n_jobs=1, max_memory="20MB", progress=slow).fit(X, y)
v = est.value(X_val, y_val, checkpoint=sys.argv[1], checkpoint_interval={interval})
np.savez(sys.argv[2], values=v.values, errors=v.standard_errors, resumed=v.resumed)
"""


def start(folder, result, pause=0.0, interval=0.0):
    code = SCRIPT.format(pause=pause, interval=interval)
    environment = os.environ | {"PYTHONPATH": str(Path(nw.__file__).parents[1])}
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder), str(result)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )


def test_kill_9_at_any_instant(rng):
    """A few kills here; benchmarks/soak.py has more of them."""
    script = Path(__file__).parents[2] / "benchmarks" / "soak.py"
    seed = str(int(rng.integers(2**32)))
    environment = os.environ | {"PYTHONPATH": str(Path(nw.__file__).parents[1])}
    command = [sys.executable, str(script), "--kills", "4", "--seed", seed]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_two_processes_do_not_share_a_folder(rng, tmp_path):
    process = start(tmp_path / "c", tmp_path / "c.npz", pause=0.05)
    try:
        assert process.stdout.readline()
        X, y, X_val, y_val = data(rng)
        with pytest.raises(ValueError, match="is in use by another run"):
            nw.KNNShapley(3).fit(X, y).value(X_val, y_val, checkpoint=tmp_path / "c")
    finally:
        process.kill()
        process.communicate()
    (tmp_path / "c" / "progress.part").unlink(missing_ok=True)
    nw.KNNShapley(3).fit(X, y).value(
        X_val, y_val, checkpoint=tmp_path / "c"
    )  # the lock died with its process


def test_two_runs_of_one_process_do_not_share_a_folder(rng, tmp_path):
    X, y, X_val, y_val = data(rng)
    refused = []

    def try_too(done, total):
        with pytest.raises(ValueError, match="is in use by another run"):
            nw.KNNShapley(3).fit(X, y).value(X_val, y_val, checkpoint=tmp_path)
        refused.append(done)

    est = nw.KNNShapley(3, progress=try_too).fit(X, y)
    est.value(X_val, y_val, checkpoint=tmp_path)
    assert refused
    est.progress = None
    assert est.value(X_val, y_val, checkpoint=tmp_path).resumed == len(y_val)


@pytest.mark.parametrize("kind", KINDS)
def test_more_validation_points_as_if_all_had_been_given_at_once(kind, rng):
    X, y, X_val, y_val = data(rng)
    weights = rng.uniform(0, 2, len(y_val))
    est = nw.KNNShapley(3, **KINDS[kind]).fit(X, y)
    expected = est.value(X_val, y_val, weights)
    cuts = [0, *sorted(rng.choice(np.arange(1, 330), 4, replace=False).tolist()), 330]
    valuation = None
    for a, b in zip(cuts, cuts[1:], strict=False):
        before = valuation
        kept = None if before is None else before.values.copy()
        valuation = est.value(X_val[a:b], y_val[a:b], weights[a:b], continue_from=before)
        if before is not None:
            np.testing.assert_array_equal(before.values, kept)  # nobody's sums are touched
            assert_same_valuation(before, nw.Valuation.from_partial(before.partial))
    assert_same_valuation(valuation, expected)


def test_going_on_from_a_valuation_with_contributions(rng):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3).fit(X, y)
    first = est.value(X_val[:70], y_val[:70], contributions=[1, 2])
    assert_same_valuation(
        est.value(X_val[70:], y_val[70:], continue_from=first), est.value(X_val, y_val)
    )


def test_going_on_costs_the_new_points_alone(rng):
    X, y, X_val, y_val = data(rng)
    calls = []
    est = nw.KNNShapley(3, progress=lambda *call: calls.append(call)).fit(X, y)
    first = est.value(X_val[:300], y_val[:300])
    calls.clear()
    est.value(X_val[300:], y_val[300:], continue_from=first)
    assert calls[-1] == (30, 30)


def test_going_on_from_a_file_and_with_a_checkpoint(rng, tmp_path):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3, standard_errors=True, n_jobs=1).fit(X, y)
    expected = est.value(X_val, y_val)
    est.value(X_val[:100], y_val[:100]).partial.save(tmp_path / "first.part")
    first = nw.Partial.load(tmp_path / "first.part")
    est.progress = interrupt_after(130)
    with pytest.raises(InterruptedByUserError):
        est.value(X_val[100:], y_val[100:], continue_from=first, checkpoint=tmp_path / "c")
    est.progress = None
    valuation = est.value(X_val[100:], y_val[100:], continue_from=first, checkpoint=tmp_path / "c")
    assert_same_valuation(valuation, expected)
    assert 0 < valuation.resumed < 230
    assert (
        est.value(X_val[100:], y_val[100:], continue_from=first, checkpoint=tmp_path / "c").resumed
        == 230
    )


def test_going_on_from_something_else_is_refused(rng, tmp_path):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3).fit(X, y)
    first = est.value(X_val[:100], y_val[:100])
    more = X_val[100:], y_val[100:]
    with pytest.raises(ValueError, match="they differ in n_neighbors: 3 and 4"):
        nw.KNNShapley(4).fit(X, y).value(*more, continue_from=first)
    with pytest.raises(ValueError, match="they differ in the training data"):
        nw.KNNShapley(3).fit(X[::-1], y).value(*more, continue_from=first)
    with pytest.raises(ValueError, match="already holds this validation set"):
        est.value(X_val[:100], y_val[:100], continue_from=first)
    with pytest.raises(ValueError, match="needs X_val and y_val"):
        est.value(continue_from=first)
    with pytest.raises(ValueError, match="continue_from keeps sums"):
        est.value(*more, continue_from=first, contributions=[0])
    with pytest.raises(TypeError, match="must be a Valuation or a Partial; got dict"):
        est.value(*more, continue_from={})
    first.save(tmp_path / "v.npz")
    with pytest.raises(ValueError, match="has no running sums"):
        est.value(*more, continue_from=nw.Valuation.load(tmp_path / "v.npz"))
    with pytest.raises(ValueError, match="must hold all validation points from the first on"):
        est.value(*more, continue_from=est.partial(*more, start=64))


@pytest.mark.parametrize("kind", KINDS)
def test_parts_made_by_hand(kind, rng):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3, **KINDS[kind]).fit(X, y)
    cuts = [0, 64, 256, 330]
    parts = [
        est.partial(X_val[a:b], y_val[a:b], start=a) for a, b in zip(cuts, cuts[1:], strict=False)
    ]
    rng.shuffle(parts)
    merged = nw.Valuation.from_partial(parts[0].merge(parts[1:]))
    assert_same_valuation(merged, est.value(X_val, y_val))
    assert len(merged.origin.validation) == 3


def test_parts_that_are_no_whole_are_refused(rng):
    X, y, X_val, y_val = data(rng)
    est = nw.KNNShapley(3).fit(X, y)
    late = est.partial(X_val[128:], y_val[128:], start=128)
    with pytest.raises(ValueError, match="Validation points are missing. .* 128 to 329"):
        nw.Valuation.from_partial(late)
    with pytest.raises(
        ValueError, match="start must be a multiple of 64, so that parts join; got 10"
    ):
        est.partial(X_val, y_val, start=10)
    with pytest.raises(ValueError, match="Validation points are missing. .* none yet"):
        nw.Valuation.from_partial(nw.Partial())
