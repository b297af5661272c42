"""Documents valued by ranked lists: against the definition over all documents of a corpus."""

from __future__ import annotations

import gzip
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest

import nearworth as nw
from helpers.definition import SEMIVALUES, defined_values, nearest_sets

ALL = (*SEMIVALUES, "composite")


def by_definition(scores, gains, k, semivalue, ties="average", sources=None):
    """Values of all documents, or of sources 0, 1, ... of them, in the game of one query."""
    distances = [-score for score in scores]

    def game(subset):
        present = (
            subset
            if sources is None
            else [i for i, source in enumerate(sources) if source in subset]
        )
        tops = nearest_sets(present, distances, k, ties)
        return sum(
            (sum((Fraction(gains[i]) for i in top), Fraction()) / k for top in tops), Fraction()
        ) / len(tops)

    return defined_values(game, len(scores) if sources is None else max(sources) + 1, semivalue)


@pytest.mark.parametrize("semivalue", ALL)
@pytest.mark.parametrize("ties", ["average", "index"])
def test_values_agree_with_the_definition(rng, semivalue, ties):
    for _ in range(10):
        n = 7
        k = int(rng.integers(1, 9))
        run = {}
        qrels = {}
        expected = np.zeros(n)
        for query in "abc":
            scores = rng.integers(0, 9, n).tolist()
            gains = (rng.integers(-4, 9, n) / 4).tolist()
            run[query] = dict(enumerate(scores))
            qrels[query] = dict(enumerate(gains))
            expected += by_definition(scores, gains, k, semivalue, ties) / 3
        found = nw.value_retrieval(run, qrels, k, semivalue, ties=ties)
        assert found.error_bound == 0.0
        assert found.documents == list(range(n))
        np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("semivalue", ALL)
def test_short_lists_have_certified_ends(rng, semivalue):
    """Relevant documents that no list has may stand anywhere behind it."""
    for _ in range(10):
        k = int(rng.integers(1, 4))
        gains = (rng.integers(-4, 9, 7) / 4).tolist()
        truth = by_definition(list(range(7, 0, -1)), gains, k, semivalue)
        found = nw.value_retrieval(
            {"q": list(range(4))}, {"q": dict(enumerate(gains))}, k, semivalue
        )
        assert (found.lower - 1e-12 <= truth[:4]).all()
        assert (truth[:4] <= found.upper + 1e-12).all()
        whole = nw.value_retrieval(
            {"q": list(range(4))}, {"q": dict(enumerate(gains[:4]))}, k, semivalue
        )
        assert whole.error_bound == 0.0


@pytest.mark.parametrize("semivalue", ALL)
@pytest.mark.parametrize("ties", ["average", "index"])
def test_sources_as_players_agree_with_the_definition(rng, semivalue, ties):
    for _ in range(6):
        n = 9
        k = int(rng.integers(1, 6))
        run = {}
        qrels = {}
        expected = np.zeros(4)
        sources = [0, 1, 2, 3, *rng.integers(0, 4, n - 4).tolist()]
        for query in "ab":
            scores = rng.integers(0, 6, n).tolist()
            gains = (rng.integers(-4, 9, n) / 4).tolist()
            run[query] = dict(enumerate(scores))
            qrels[query] = dict(enumerate(gains))
            expected += by_definition(scores, gains, k, semivalue, ties, sources) / 2
        found = nw.value_retrieval(run, qrels, k, semivalue, ties=ties).value_owners(
            dict(enumerate(sources))
        )
        np.testing.assert_allclose(
            [found[source].total for source in range(4)], expected, rtol=0, atol=1e-12
        )
        assert all(each.lower == each.total == each.upper for each in found.values())
        assert [found[source].n_rows for source in range(4)] == np.bincount(sources).tolist()


@pytest.mark.parametrize("semivalue", ALL)
def test_sources_of_short_lists_have_certified_ends(rng, semivalue):
    """Documents behind a list belong to any source, one that is in no list included."""
    for _ in range(10):
        k = int(rng.integers(1, 4))
        gains = (rng.integers(-4, 9, 7) / 4).tolist()
        sources = [0, 1, 1, 2, *rng.integers(0, 4, 3).tolist()]
        truth = by_definition(list(range(7, 0, -1)), gains, k, semivalue, sources=[*sources[:6], 3])
        found = nw.value_retrieval(
            {"q": list(range(4))}, {"q": dict(enumerate(gains))}, k, semivalue
        )
        owners = found.value_owners(dict(enumerate(sources)))
        for source, value in owners.items():
            assert value.lower - 1e-12 <= truth[source] <= value.upper + 1e-12


def test_copies_of_documents_gain_a_source_nothing_beyond_k_of_them(rng):
    gains = dict(enumerate((rng.random(30) < 0.4).astype(float).tolist()))
    sources = {i: f"source {i % 5}" for i in range(30)}
    once = nw.value_retrieval({"q": list(range(30))}, {"q": gains}, 3)
    lists = []
    judged = {}
    of = dict(sources)
    for i in range(30):  # every document of source 0 stands ten times
        for copy in range(10 if i % 5 == 0 else 1):
            lists.append((i, copy))
            judged[i, copy] = gains[i]
            of[i, copy] = sources[i]
    often = nw.value_retrieval({"q": lists}, {"q": judged}, 3)
    lists = [(i, copy) for i, copy in lists if copy < 3]
    thrice = nw.value_retrieval({"q": lists}, {"q": judged}, 3)
    share = lambda found: found["source 0"].total  # noqa: E731
    assert share(often.value_owners(of)) == pytest.approx(share(thrice.value_owners(of)), abs=1e-12)
    assert share(often.sum_by(of)) != pytest.approx(share(once.sum_by(of)), abs=1e-3)


def test_long_lists_are_exact_for_banzhaf(rng):
    qrels = {"q": dict.fromkeys(range(200), 1.0)}
    assert nw.value_retrieval({"q": list(range(75))}, qrels, 10).error_bound < 1e-12
    assert (
        0.01 < nw.value_retrieval({"q": list(range(75))}, qrels, 10, "shapley").error_bound < 0.02
    )


def test_lists_of_unequal_length_and_documents_in_some_of_them():
    run = {"q": {"a": 3.0, "b": 2.0}, "p": {"b": 9.0}, "r": ["c", "b", "a"]}
    qrels = {"q": {"b": 1}, "p": {"b": 2}, "r": {"a": 1, "c": 0}}
    v = nw.value_retrieval(run, qrels, 1)
    expected = np.array([-0.5 + 0.25, 0.5 + 2 - 0.25, -0.25]) / 3
    np.testing.assert_allclose(v.values, expected)
    assert v.n_queries.tolist() == [2, 3, 1]
    assert v.harmful() == {"a": {"q": -0.5}, "c": {"r": -0.25}}
    assert v.harmful(1) == {"a": {"q": -0.5}}
    total = v.sum_by({"a": "x", "b": "y", "c": "x"})
    assert total["x"].total == pytest.approx(expected[0] + expected[2])
    assert total["y"].n_rows == 1


def test_every_form_gives_the_same(rng, tmp_path):
    lines = []
    judgements = []
    for query in range(20):
        for rank, document in enumerate(rng.permutation(50)[:12]):
            lines.append((f"q{query}", f"d{document}", rank + 1, round(float(rng.random()), 3)))
        judgements += [(f"q{query}", f"d{i}", int(rng.integers(0, 3))) for i in range(0, 50, 3)]
    (tmp_path / "run").write_text("".join(f"{q} Q0\t{d}  {r} {s} me\n" for q, d, r, s in lines))
    (tmp_path / "qrels").write_text("".join(f"{q} 0 {d} {g}\n" for q, d, g in judgements) + "\n")
    run = {
        q: {d: s for p, d, _, s in lines if p == q}
        for q in dict.fromkeys(line[0] for line in lines)
    }
    qrels = {q: {d: g for p, d, g in judgements if p == q} for q in run}
    frame = pd.DataFrame(lines, columns=["query", "document", "rank", "score"])
    gains = pl.DataFrame(judgements, schema=["query", "document", "relevance"], orient="row")
    expected = nw.value_retrieval(run, qrels, 5)
    for pair in (
        (tmp_path / "run", tmp_path / "qrels"),
        (frame, gains),
        (str(tmp_path / "run"), qrels),
    ):
        found = nw.value_retrieval(*pair, 5)
        assert found.documents == expected.documents
        np.testing.assert_array_equal(found.values, expected.values)
    table = expected.to_frame("pandas")
    assert {"document", "value", "n_queries"} <= set(table.columns)


def test_files_may_be_compressed_or_begin_with_a_mark(tmp_path):
    text = "q Q0 a 1 3 me\nq Q0 b 2 2 me\n"
    (tmp_path / "run.gz").write_bytes(gzip.compress(text.encode()))
    (tmp_path / "run").write_text(text, encoding="utf-8-sig")
    for name in ("run.gz", "run"):
        assert nw.value_retrieval(tmp_path / name, {"q": {"b": 1}}, 1).values.tolist() == [
            -0.5,
            0.5,
        ]


def test_what_is_refused(tmp_path):
    with pytest.raises(ValueError, match="share no query"):
        nw.value_retrieval({1: ["a"]}, {"1": {"a": 1}})
    with pytest.raises(ValueError, match="run: document 'a' is listed twice for query 'q'"):
        nw.value_retrieval({"q": ["a", "a"]}, {"q": {"a": 1}})
    with pytest.raises(ValueError, match="qrels: the number of document 'a'"):
        nw.value_retrieval({"q": ["a"]}, {"q": {"a": np.nan}})
    with pytest.raises(ValueError, match="run: the number of document 'a'"):
        nw.value_retrieval({"q": {"a": np.inf}}, {"q": {"a": 1}})
    with pytest.raises(ValueError, match="sizes"):
        nw.value_retrieval({"q": ["a"]}, {"q": {"a": 1}}, semivalue=("sizes", 0, 3))
    with pytest.raises(ValueError, match="n_neighbors"):
        nw.value_retrieval({"q": ["a"]}, {"q": {"a": 1}}, 0)
    assert nw.value_retrieval({"q": pd.Series(["a", "b"])}, {"q": {"a": 1}}, 1).documents == [
        "a",
        "b",
    ]
    for judged in (["a"], {"a"}):
        with pytest.raises(
            TypeError, match="qrels: query 'q' must have {document: relevance}; got"
        ):
            nw.value_retrieval({"q": ["a", "b"]}, {"q": judged})
    with pytest.raises(TypeError, match="or a ranked list; got int"):
        nw.value_retrieval({"q": 3}, {"q": {"a": 1}})
    for empty in ({}, {"q": []}):
        with pytest.raises(ValueError, match="run is empty"):
            nw.value_retrieval(empty, {"q": {"a": 1}})
    v = nw.value_retrieval({"q": ["a", "b"]}, {"q": {"a": 1}})
    for of_sources in (v.sum_by, v.value_owners):
        with pytest.raises(ValueError, match="'b' has none"):
            of_sources({"a": "wiki"})
    with pytest.raises(TypeError, match="run must be the path"):
        nw.value_retrieval(3, {"q": {"a": 1}})
    with pytest.raises(ValueError, match="no column 'query'"):
        nw.value_retrieval(pd.DataFrame({"x": [1]}), {"q": {"a": 1}})
    (tmp_path / "run").write_text("q Q0 a 1 0.5 me\nq Q0 a\n")
    with pytest.raises(
        ValueError, match="line 2: has 3 columns instead of 6: query Q0 document rank score tag"
    ):
        nw.value_retrieval(tmp_path / "run", {"q": {"a": 1}})
    (tmp_path / "run").write_bytes("q Q0 ä 1 0.5 me".encode("utf-16"))
    with pytest.raises(ValueError, match="is not text in UTF-8"):
        nw.value_retrieval(tmp_path / "run", {"q": {"a": 1}})
    with pytest.warns(
        UserWarning, match="1 queries of run have no judgments and 1 of qrels no list"
    ):
        nw.value_retrieval({"q": ["a"], "p": ["a"]}, {"q": {"a": 1}, "r": {"a": 1}})


def test_the_command(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from nearworth.cli import main
    from nearworth.tables.read import read

    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.trec").write_text("q Q0 a 1 3 me\nq Q0 b 2 2 me\nq Q0 c 3 1 me\n")
    (tmp_path / "qrels.txt").write_text("q 0 b 1\n")
    result = CliRunner().invoke(
        main, ["retrieval", "run.trec", "qrels.txt", "-k", "1", "-o", "values.csv"]
    )
    assert result.exit_code == 0, result.output
    assert read("values.csv").table.to_pydict() == {
        "document": ["a", "b", "c"],
        "value": [-0.5, 0.5, 0.0],
        "n_queries": [1, 1, 1],
    }
    assert "a hurts q" in result.stderr
    assert CliRunner().invoke(main, ["retrieval", "run.trec", "none.txt"]).exit_code == 2


def test_names_that_print_alike_are_refused():
    with pytest.raises(
        ValueError, match=r"^run and qrels, documents: 7 \(int\) and '7' \(str\) are two values"
    ):
        nw.value_retrieval({"q": [7, "b"]}, {"q": {"7": 1}})
    with pytest.raises(
        ValueError, match=r"^run and qrels, queries: 1 \(int\) and '1' \(str\) are two values"
    ):
        nw.value_retrieval({1: ["a"], "1": ["b"]}, {1: {"a": 1}, "1": {"b": 1}})
    values = nw.value_retrieval({"q": ["a", "b"]}, {"q": {"a": 1}})
    with pytest.raises(ValueError, match=r"^sources: 7 \(int\) and '7' \(str\) are two values"):
        values.sum_by({"a": 7, "b": "7"})
