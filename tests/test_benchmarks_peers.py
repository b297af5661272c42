"""The side-by-side run with other packages: what it makes of measurements. No package is run
here.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PEERS = ROOT / "benchmarks" / "peers"
pytestmark = pytest.mark.skipif(
    not PEERS.exists(), reason="benchmarks are not part of the source distribution"
)


@pytest.fixture(autouse=True)
def scripts_can_be_imported(monkeypatch):
    monkeypatch.syspath_prepend(str(PEERS))


@pytest.fixture
def results():
    from results import Agreement, Results, Row, Timing

    def timing(wall, measured_on=None):
        return Timing(wall, cpu=wall / 2, runs=3, peak_mb=100.0, measured_on=measured_on)

    far = Agreement(1.0, 0.5, 0.5, 0.5, 0.4)
    near = Agreement(1.0, 1e-9, 1e-9, 1e-9, 1.0)
    rows = (
        Row(
            "nearworth",
            "nearworth",
            "g",
            "2026-01-01",
            one_core=timing(2.0),
            all_cores=timing(1.0),
            first_call=3.0,
        ),
        Row(
            "quick",
            "Quick",
            "g",
            "2026-01-02",
            one_core=timing(0.5),
            agreement=far,
            versions={"quick": "1.0"},
        ),
        Row(
            "slow",
            "Slow",
            "g",
            "2026-01-02",
            one_core=timing(80.0, 7),
            all_cores=timing(90.0),
            agreement=near,
        ),
        Row("broken", "Broken", "g", "2026-01-02", reason="does not install"),
    )
    problem = {"n_train": 10, "n_val": 5, "dimensions": 2, "classes": 2}
    machine = {"processor": "P", "cores": 2, "memory_gb": 8.0, "system": "S"}
    return Results(problem, machine, rows)


def test_values_are_compared_by_their_largest_difference(rng):
    from results import Agreement

    ours = rng.normal(size=50)
    moved = ours.copy()
    moved[7] += 0.25
    agreement = Agreement.of(moved, ours)
    assert agreement.difference == pytest.approx(0.25)
    assert agreement.relative == pytest.approx(0.25 / np.abs(ours).max())


def test_a_constant_is_told_from_a_difference(rng):
    from results import Agreement

    ours = rng.normal(size=50)
    agreement = Agreement.of(ours + 3.0, ours)
    assert agreement.difference == pytest.approx(3.0)
    assert agreement.relative_up_to_constant < 1e-12
    assert agreement.rank_correlation == pytest.approx(1.0)


def test_values_of_other_points_are_refused():
    from results import Agreement

    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        Agreement.of(np.zeros(3), np.ones(4))


def test_times_of_some_validation_points_are_scaled_and_marked():
    from results import Timing

    report = {"wall": 2.0, "cpu": 1.0, "runs": 1, "peak_mb": 5.0, "n_val": 10}
    assert Timing.scaled(report, 100) == Timing(20.0, 10.0, 1, 5.0, measured_on=10)
    assert Timing.scaled(report, 10).measured_on is None
    assert (
        Timing.scaled(report | {"n_val": None}, 100).wall == 2.0
    )  # no validation set, nothing to scale


def test_ratios_are_of_cpu_time_and_of_the_shorter_wait(results):
    by_name = {row.peer: row for row in results.rows}
    assert results.ratio(by_name["slow"]) == 40.0
    assert results.wall_ratio(by_name["slow"]) == 80.0
    assert results.ratio(by_name["broken"]) is results.wall_ratio(by_name["broken"]) is None


def test_results_survive_a_file_and_a_new_row_replaces_its_own_only(results, tmp_path):
    from results import Results, Row

    path = tmp_path / "results.json"
    results.write(path)
    read = Results.read(path)
    assert read == results
    new = Row("nearworth", "nearworth", "g", "2026-02-02")
    changed = read.with_row(new)
    assert changed.rows == (new, *results.rows[1:])
    assert len(read.with_row(Row("nearworth", "nearworth", "other game", "2026-02-02")).rows) == 5


def test_the_best_of_two_runs_is_kept_for_the_same_versions_only(results):
    from dataclasses import replace

    old = results.rows[0]
    one = old.one_core
    every = old.all_cores
    now = {
        "one_core": replace(one, wall=one.wall * 3, cpu=one.cpu / 3),
        "all_cores": replace(every, measured_on=4),
    }
    new = replace(old, date="2026-03-03", first_call=None, **now)
    best = replace(one, cpu=one.cpu / 3, runs=6)
    assert old.improved_by(new) == replace(new, one_core=best, first_call=old.first_call)
    changed = replace(new, versions={"numpy": "9"})
    assert old.improved_by(changed) == changed
    broken = replace(new, reason="fails now", one_core=None, all_cores=None)
    assert old.improved_by(broken) == broken


def test_the_table_has_a_line_for_everybody_even_the_broken(results):
    from results import table

    lines = table(results).splitlines()
    assert len(lines) == 2 + 1 + 4
    assert "does not install" in lines[-1]
    assert "from 7 points" in next(line for line in lines if "Slow" in line)
    assert len({line.count("|") for line in lines}) == 1


@pytest.mark.parametrize(
    ("number", "count", "written"),
    [
        (0.14399, 3, "0.144"),
        (9.999, 3, "10.0"),
        (71.25, 2, "71"),
        (4321.0, 2, "4,300"),
        (0.58, 3, "0.580"),
    ],
)
def test_numbers_are_rounded_to_digits(number, count, written):
    from results import digits

    assert digits(number, count) == written


def test_the_picture_shows_every_timed_row(results, tmp_path):
    pytest.importorskip("matplotlib")
    from plot import bars, draw

    assert [bar.label.strip() for bar in bars(results)] == ["g", "Quick 1.0", "nearworth", "Slow"]
    draw(results, tmp_path / "new" / "peers.svg")
    assert (tmp_path / "new" / "peers.svg").read_text().rstrip().endswith("</svg>")


def test_the_page_is_renewed_between_its_marks_only(results):
    from plot import END, START, renewed

    page = renewed(f"before {START} old {END} after", results)
    assert page.startswith("before ")
    assert page.endswith(" after")
    assert " old " not in page
    assert renewed(page, results) == page
    with pytest.raises(ValueError, match="measured"):
        renewed("no marks", results)


def test_the_page_tells_the_last_results():
    from plot import renewed

    from results import Results

    page = (ROOT / "docs" / "peers.md").read_text()
    assert page == renewed(page, Results.read(PEERS / "results.json"))


def test_every_peer_has_an_adapter_and_a_pinned_version():
    import environments

    for peer in (*environments.OURS, *environments.PEERS):
        assert (PEERS / "adapters" / f"{peer.name}.py").exists()
    assert all(peer.name in peer.pins for peer in environments.PEERS)


def test_slow_work_runs_on_fewer_validation_points(monkeypatch, rng):
    import harness

    now = 0.0
    monkeypatch.setattr(harness.time, "perf_counter", lambda: now)

    def prepare(task):
        def work():
            nonlocal now
            now += 2.0 * len(task.y_val)  # two seconds per validation point
            return np.zeros(len(task.y))

        return work

    task = harness.Task(np.zeros((30, 1)), np.zeros(30), np.zeros((200, 1)), np.zeros(200), 5, 1)
    assert harness.measure(prepare, task, repeats=3, time_limit=100.0)[1].n_val == 50
    assert harness.measure(prepare, task, repeats=3, time_limit=1000.0)[1].n_val == 200


def test_pins_are_compared_as_installed(tmp_path):
    import environments

    peer = next(peer for peer in environments.PEERS if peer.name == "pydvl")
    assert "pydvl==0.10.0" in environments.missing(peer, tmp_path / "no" / "python")
    fake = tmp_path / "python"
    installed = {name: version + "+cpu" for name, version in peer.pins.items()} | {"pyDVL": "0.9.0"}
    installed.pop("pydvl")
    fake.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(installed)}\nEND\n")
    fake.chmod(0o755)
    assert environments.missing(peer, fake) == ["pydvl==0.10.0"]


def test_a_peer_that_cannot_be_had_is_a_row_with_the_reason(tmp_path):
    import environments
    import run

    bench = run.Bench(run.make_data(20, 5), tmp_path, repeats=1, time_limit=1.0)
    row = run.row(
        bench, environments.Peer("gone", "Gone", environments.K5, ("0.1",), (("gone==1.0",),))
    )
    assert row.reason == "needs Python 0.1, not found on this machine"
    assert row.fastest is None


def test_an_adapter_that_fails_is_a_row_with_the_reason(tmp_path):
    import environments
    import run

    bench = run.Bench(run.make_data(20, 5), tmp_path, repeats=1, time_limit=1.0)
    bench.save_data()
    row = run.row(bench, environments.Peer("no_such_adapter", "None", environments.K5))
    assert "FileNotFoundError" in row.reason


def test_rows_of_other_data_are_not_mixed(results, tmp_path):
    import run

    path = tmp_path / "results.json"
    results.write(path)
    bench = run.Bench(run.make_data(20, 5), tmp_path, repeats=1, time_limit=1.0)
    with pytest.raises(SystemExit, match="another problem"):
        run.earlier(path, bench, partial=True)
    assert run.earlier(path, bench, partial=False).rows == ()
