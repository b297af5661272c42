"""Many rows: an index finds their neighbours, plan says how long it takes, and an interrupted run
goes on.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import nearworth as nw
from helpers.command_line import one_line
from nearworth.cli import arguments, audit, options, value
from nearworth.cli.audit import INDEX_ERROR, resolve_search
from nearworth.engine.run import NearestLists

AUTO = {"search": "auto", "max_error": None, "metric": "euclidean"}


@pytest.fixture
def few(monkeypatch):
    """As if 500 rows were many."""
    monkeypatch.setattr(audit, "MANY_ROWS", 500)


@pytest.fixture
def arrays(tmp_path, rng):
    y = np.arange(900) % 3
    X = rng.normal(size=(900, 6)) + 6.0 * np.eye(6)[y]
    given = y.copy()
    given[:20] = (given[:20] + 1) % 3
    np.savez(tmp_path / "t.npz", X=X, y=given)
    return X, given


def test_an_index_only_where_it_pays():
    assert resolve_search(AUTO, 100_000, "classification") == AUTO | {
        "search": "faiss",
        "max_error": INDEX_ERROR,
    }
    assert resolve_search(AUTO, 1_000, "classification")["search"] == "exact"
    assert resolve_search(AUTO, 100_000, "regression")["search"] == "exact"
    assert (
        resolve_search(AUTO | {"metric": "cosine"}, 100_000, "classification")["search"] == "exact"
    )
    for asked in ({"search": "exact"}, {"max_error": 0.1}, {"search": "lsh", "max_error": 0.1}):
        assert resolve_search(AUTO | asked, 100_000, "classification") == AUTO | asked


def test_audit_finds_the_same_by_an_index(command, few, arrays):
    code, out, err = command("audit", "t.npz", "--json")
    assert code == 0
    assert "with 99% confidence" in err or "certain to within" in err
    summary = json.loads(out)
    assert summary["error_bound"] > 0
    exact = nw.audit_labels(*arrays, n_neighbors=10).suspects()
    assert len({row["row"] for row in summary["rows"]} ^ set(exact.tolist())) <= 2
    assert (
        json.loads(command("audit", "t.npz", "--json", "--search", "exact")[1])["error_bound"] == 0
    )


def test_scan_finds_the_same_by_an_index(command, few, arrays):
    by_index, exact = (
        json.loads(command("scan", "t.npz", "--json", *more)[1])
        for more in ([], ["--search", "exact"])
    )
    for kind in ("labels", "duplicates", "outliers"):
        assert len(set(by_index[kind]) ^ set(exact[kind])) <= 2
    assert len(by_index["labels"]) > 10


def test_without_faiss_it_says_what_to_install(command, few, arrays, monkeypatch):
    for module in (arguments, audit, value):
        monkeypatch.setattr(module, "find_spec", lambda _name: None)
    code, out, err = command("audit", "t.npz", "--json")
    assert code == 0
    assert "900 rows: an index is many times faster: pip install 'nearworth[faiss]'" in err
    assert json.loads(out)["error_bound"] == 0
    assert "pip install 'nearworth[faiss]'" in command("plan", "t.npz", "--for", "audit")[1]
    code, _, err = command("audit", "t.npz", "--search", "faiss", "--max-error", "0.1")
    assert code == 2
    assert "pip install 'nearworth[faiss]'" in one_line(err)


def test_plan_of_an_audit_has_every_method(command, arrays):
    code, out, err = command("plan", "t.npz", "--for", "audit")
    assert code == 0, err
    lines = out.splitlines()
    assert lines[0].startswith("An audit of 900 rows of 6 numbers")
    assert re.search(r"every distance +about [\d.e+-]+ seconds +\(the default", lines[1])
    assert re.search(r"an index \(faiss\) +about [\d.e+-]+ seconds", lines[2])


def test_plan_of_amounts_has_one_method(command, tmp_path, rng):
    np.savez(tmp_path / "t.npz", X=rng.normal(size=(300, 2)), y=rng.normal(size=300))
    code, out, _ = command("plan", "t.npz", "--for", "audit")
    assert code == 0
    assert "index (faiss)" not in out


@pytest.fixture
def stop(monkeypatch):
    """Ctrl-C once 300 rows are done, if `stop[0]`."""
    wanted = [True]
    call = options.Progress.__call__

    def watched(self, done, total):
        call(self, done, total)
        if wanted[0] and done >= 300:
            raise KeyboardInterrupt

    monkeypatch.setattr(options.Progress, "__call__", watched)
    return wanted


def test_an_interrupted_audit_goes_on(command, arrays, stop):
    line = ["audit", "t.npz", "-o", "s.csv", "--checkpoint", "run here"]
    code, _, err = command(*line)
    assert code == 130
    last = err.splitlines()[-1]
    assert re.fullmatch(
        r"nearworth: interrupted after \d+ of 900 rows. This goes on from there: "
        r"nearworth audit t.npz -o s.csv --checkpoint 'run here'",
        last,
    )
    stop[0] = False
    code, _, err = command(*line)
    assert code == 0
    assert re.search(r"\d+ of 900 rows came from run here", err)
    command("audit", "t.npz", "-o", "whole.csv", "-q")
    assert Path("s.csv").read_bytes() == Path("whole.csv").read_bytes()
    assert (
        command("report", "t.npz", "-o", "r.html", "--checkpoint", "run here")[0] == 0
    )  # the same audit
    code, _, err = command(
        "audit", "t.npz", "-k", "5", "-o", "t.csv", "--checkpoint", "run here", "-q"
    )
    assert code == 2
    assert "belongs to another run" in one_line(err)


def test_an_interrupted_audit_by_an_index_goes_on(command, few, arrays, stop):
    line = ["audit", "t.npz", "-o", "s.csv", "--checkpoint", "run"]
    assert command(*line)[0] == 130
    stop[0] = False
    assert command(*line)[0] == 0
    command("audit", "t.npz", "-o", "whole.csv", "-q")
    assert Path("s.csv").read_bytes() == Path("whole.csv").read_bytes()


def test_without_a_checkpoint_it_says_what_would_have_helped(command, arrays, stop):
    _, _, err = command("value", "t.npz", "-o", "v.csv", "-q")
    assert one_line(err).endswith(
        "nearworth value t.npz -o v.csv -q --checkpoint nearworth-checkpoint"
    )
    assert "of 900 rows, which are lost." in err


def test_validation_rows_have_a_checkpoint_of_their_own(command, arrays, tmp_path):
    X, y = arrays
    np.savez(tmp_path / "v.npz", X=X[500:], y=y[500:])
    for name in ("a.csv", "b.csv"):
        options_ = ["--validation", "v.npz", "--checkpoint", "run"]
        assert command("audit", "t.npz", "-o", name, "-q", *options_)[0] == 0
    assert Path("a.csv").read_bytes() == Path("b.csv").read_bytes()
    assert {path.name for path in Path("run").iterdir()} >= {"progress.part", "validation"}


def test_lists_of_another_shape_are_refused(tmp_path):
    lists = NearestLists(20, 5, folder=tmp_path)
    lists.found.rows[3] = 7
    assert (NearestLists(20, 5, folder=tmp_path).found.rows[3] == 7).all()
    with pytest.raises(ValueError, match="belongs to another run"):
        NearestLists(21, 5, folder=tmp_path)
