"""The commands on files as people have them: what goes wrong is one line, and nothing is left behind."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearworth as nw
from command_line import START, environment, flowers, installed, one_line, write_csv
from nearworth.cli import main
from nearworth.tables.read import read

WRONG = (4, 31, 62)
COLUMNS = "a,b,label\n"
GOOD = COLUMNS + "1,2,x\n2,1,y\n3,2,x\n4,1,y\n"


def test_target_is_never_guessed(command, tmp_path):
    (tmp_path / "a.csv").write_text(GOOD)
    code, _, err = command("detect", "a.csv")
    assert code == 2
    assert "--target" in one_line(err)
    assert "'label'" in err


def test_names_that_are_nearly_right(command, tmp_path, rng):
    names = [f"mean {i}" for i in range(30)]
    columns = {name: rng.normal(size=12) for name in names} | {"diagnosis": list("ab") * 6}
    write_csv(tmp_path / "a.csv", columns)
    line = one_line(command("detect", "a.csv", "-t", "Diagnosis")[2])
    assert "'mean 0'" in line
    assert "'mean 29', 'diagnosis'. Did you mean 'diagnosis'?" in line
    assert "Did you mean" not in one_line(command("detect", "a.csv", "-t", "price")[2])
    for option in ("--features", "--ignore"):
        line = one_line(command("detect", "a.csv", "-t", "diagnosis", option, "mean")[2])
        assert line.endswith("Did you mean 'mean*'?")
    assert "Did you mean '*9'?" in one_line(command("detect", "a.csv", "-t", "diagnosis", "--features", "9")[2])


def test_row_numbers_are_doubted(command, tmp_path, rng):
    columns = {"row_no": rng.permutation(12) + 5, "count": [1, *range(1, 12)], "size": rng.normal(size=12)}
    write_csv(tmp_path / "a.csv", columns | {"label": list("ab") * 6})
    _, _, err = command("value", "a.csv", "-t", "label", "--dry-run")
    assert "column 'row_no' looks like a row number and counts as a feature: --id 'row_no' or --ignore 'row_no'" in err
    assert err.count("looks like") == 1
    for option in (["--ignore", "row_no"], ["--id", "row_no"], ["--features", "row_no"], ["-q"]):
        assert "looks like" not in command("value", "a.csv", "-t", "label", "--dry-run", *option)[2]


def test_amounts_as_classes_are_doubted(command, tmp_path, rng):
    price, size = np.repeat(np.arange(25) * 100, 2), rng.normal(size=50)
    write_csv(tmp_path / "a.csv", {"size": size, "price": price})
    np.savez("a.npz", X=size[:, None], y=price)
    for arguments in (["a.csv", "-t", "price"], ["a.npz"]):
        assert "did you mean --task regression?" in command("value", *arguments, "--dry-run")[2]
        assert "did you mean" not in command("value", *arguments, "--dry-run", "--task", "regression")[2]
    np.savez("b.npz", X=rng.normal(size=(250, 2)), y=np.repeat(np.arange(25), 10))
    assert "did you mean" not in command("value", "b.npz", "--dry-run")[2]


def test_usage_is_one_line_too(command):
    for arguments in (["value"], ["value", "a.csv", "--what"], ["detect", "a.csv", "-k", "0"], ["valeu"]):
        code, out, err = command(*arguments)
        assert code == 2
        assert out == ""
        assert "--help" in one_line(err)


def test_value_gives_what_the_api_gives(command, tmp_path, rng):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    write_csv(tmp_path / "trusted.csv", dict(reversed(flowers(rng, 30)[0].items())))
    code, out, err = command(
        "value", "train.csv", "-t", "species", "--id", "name", "--validation", "trusted.csv", "-o", "values.csv"
    )
    assert (code, out) == (0, "")
    assert "garden: 2 categories" in err
    table = read("values.csv").table
    assert table.column_names == ["row", "name", "value", "standard_error", "rank"]
    assert table["name"].to_pylist() == columns["name"]
    preparer = nw.TablePreparer()
    features = ["length", "width", "garden"]
    X = preparer.fit_transform(read("train.csv").table.select(features))
    other = read("trusted.csv").table
    expected = (
        nw.KNNShapley(5, standard_errors=True)
        .fit(X, columns["species"])
        .value(preparer.transform(other.select(features)), other["species"].to_pylist())
    )
    np.testing.assert_allclose(table["value"], expected.values, rtol=1e-12)
    np.testing.assert_allclose(table["standard_error"], expected.standard_errors, rtol=1e-12)
    order = np.argsort(table["rank"].to_numpy(), kind="stable")
    assert (np.diff(expected.values[order]) <= 1e-15).all()


def test_detect_finds_wrong_labels_and_says_what_they_should_be(command, tmp_path, rng):
    columns, truth = flowers(rng, wrong=WRONG)
    write_csv(tmp_path / "train.csv", columns, delimiter=";")
    code, out, err = command("detect", "train.csv", "-t", "species", "--id", "name", "--fraction", "0.0334")
    assert code == 0
    assert "separated by ';'" in err
    rows = list(csv.DictReader(out.splitlines()))
    assert list(rows[0]) == ["row", "name", "given", "suggested", "quality", "value", "why"]
    assert {int(r["row"]) for r in rows} == set(WRONG)
    assert all(r["suggested"] == truth[int(r["row"])] for r in rows)
    assert all(r["given"] == columns["species"][int(r["row"])] for r in rows)
    assert [float(r["quality"]) for r in rows] == sorted(float(r["quality"]) for r in rows)


def test_an_empty_list_says_why(command, tmp_path, rng):
    columns, _ = flowers(rng, wrong=WRONG)
    write_csv(tmp_path / "train.csv", columns)
    arguments = ["detect", "train.csv", "-t", "species", "--id", "name"]
    _, out, err = command(*arguments)
    n_listed = len(out.splitlines()) - 1
    assert f"{n_listed} of 90 labels are suspect (more likely wrong than right)" in err
    code, out, err = command(*arguments, "--max-fdr", "0.001")
    assert (code, len(out.splitlines())) == (0, 1)
    assert "No suspects among 90 labels (max-fdr 0.001)." in err
    assert "No list can promise at most 0.1 % false alarms" in err
    assert f"without --max-fdr {n_listed} rows are listed" in err
    _, _, err = command("report", *arguments[1:], "--max-fdr", "0.001", "-o", "r.html")
    assert "No list can promise" in err
    page = Path("r.html").read_text()
    assert "No suspects (max-fdr 0.001). No list can promise" in page
    assert "listed below" not in page


def test_formats_and_json(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng, wrong=WRONG)[0])
    for name in ("v.parquet", "v.feather", "v.tsv", "v.csv"):
        assert command("value", "train.csv", "-t", "species", "--ignore", "name", "-o", name, "-q") == (0, "", "")
        assert read(name).table.num_rows == 90
    assert command("value", "train.csv", "-t", "species", "--ignore", "name", "-o", "v.json", "-q")[0] == 0
    assert len(json.loads(Path("v.json").read_text())) == 90
    code, out, _ = command("detect", "train.csv", "-t", "species", "--ignore", "n*", "--json", "-q")
    summary = json.loads(out)
    assert (code, summary["command"], summary["n_train"]) == (0, "detect", 90)
    assert len(summary["rows"]) == summary["n_suspects"]
    code, out, _ = command("value", "train.csv", "-t", "species", "--ignore", "n*", "--json", "-q", "-o", "w.csv")
    assert "rows" not in json.loads(out)


def test_existing_files_stay_unless_forced(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    (tmp_path / "out.csv").write_text("precious")
    arguments = ["value", "train.csv", "-t", "species", "--id", "name", "-o", "out.csv", "-q"]
    code, _, err = command(*arguments)
    assert code == 2
    assert "--force" in one_line(err)
    assert Path("out.csv").read_text() == "precious"
    assert command(*arguments, "--force")[0] == 0
    assert Path("out.csv").read_text() != "precious"


def test_dry_run_stops_before_work(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    code, out, err = command("detect", "train.csv", "-t", "species", "--id", "name", "--dry-run", "-o", "o.csv")
    assert (code, out) == (0, "")
    assert "length: number, standardised" in err
    assert "Dry run" in err
    assert not Path("o.csv").exists()


def test_many_columns_are_few_lines(command, tmp_path, rng):
    columns = {f"p{i}": rng.normal(size=12) for i in range(50)} | {"town": list("ab") * 6}
    columns |= {f"q{i}": rng.normal(size=12) for i in range(3)} | {"label": list("ab") * 6}
    write_csv(tmp_path / "a.csv", columns)
    _, _, err = command("value", "a.csv", "-t", "label", "--dry-run", "--ignore", "p1?")
    lines = [line.strip() for line in err.splitlines()]
    assert lines[1:7] == [
        "p0 ... p49: 40 numbers, standardised",
        "town: 2 categories, one 0/1 column each",
        *[f"q{i}: number, standardised" for i in range(3)],
        "p10 ... p19: 10 columns, left out: --ignore",
    ]
    _, _, err = command("value", "a.csv", "-t", "label", "--dry-run", "--features", "p*")
    assert "p0 ... p49: 50 numbers, used as they are" in err


def test_config_sets_what_the_command_line_does_not(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng, wrong=WRONG)[0])
    (tmp_path / "run.toml").write_text(
        'target = "species"\nid = "name"\n[detect]\nfraction = 0.5\ntrain = "train.csv"\n'
    )
    code, out, _ = command("detect", "--config", "run.toml", "-q")
    assert code == 0
    assert len(out.splitlines()) == 1 + 45
    assert len(command("detect", "--config", "run.toml", "--fraction", "0.1", "-q")[1].splitlines()) == 1 + 9
    (tmp_path / "run.toml").write_text("tarhget = 1\n")
    assert "'tarhget'" in one_line(command("detect", "train.csv", "--config", "run.toml")[2])
    (tmp_path / "run.toml").write_text("target = \n")
    assert "TOML" in one_line(command("detect", "train.csv", "--config", "run.toml")[2])
    assert "No such file" in one_line(command("detect", "train.csv", "--config", "none.toml")[2])


def test_arrays_and_embeddings(command, tmp_path, rng):
    X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
    np.savez("a.npz", X=X, y=y)
    assert command("value", "a.npz", "-o", "v.csv", "-q")[0] == 0
    expected = nw.KNNShapley(5).fit(X, y).value().values
    np.testing.assert_allclose(read("v.csv").table["value"], expected, rtol=1e-12)
    pq.write_table(pa.table({"emb": X.tolist(), "y": y, "note": ["x"] * 40}), "a.parquet")
    assert command("value", "a.parquet", "-t", "y", "-o", "w.csv", "-q")[0] == 0
    np.testing.assert_allclose(read("w.csv").table["value"], expected, rtol=1e-12)
    parts = {f"emb_{i}": X[:, i] for i in range(3)}
    pq.write_table(pa.table(parts | {"y": y, "other": rng.normal(size=40)}), "b.parquet")
    assert command("value", "b.parquet", "-t", "y", "--features", "emb_*", "-o", "u.csv", "-q")[0] == 0
    np.testing.assert_allclose(read("u.csv").table["value"], expected, rtol=1e-12)
    np.save("X.npy", X)
    np.save("y.npy", y)
    assert command("value", "X.npy", "-t", "y.npy", "-o", "t.csv", "-q")[0] == 0
    assert "no labels" in one_line(command("value", "X.npy", "-q")[2])


def test_regression(command, tmp_path, rng):
    X = rng.normal(size=(60, 2))
    write_csv(tmp_path / "a.csv", {"a": X[:, 0], "b": X[:, 1], "price": X.sum(axis=1)})
    assert command("value", "a.csv", "-t", "price", "--task", "regression", "-o", "v.csv", "-q")[0] == 0
    assert "--task regression" in one_line(command("value", "a.csv", "-t", "price", "-q")[2])
    assert "needs numbers" in one_line(_text_regression(command, tmp_path))


def _text_regression(command, tmp_path):
    (tmp_path / "t.csv").write_text(GOOD)
    return command("value", "t.csv", "-t", "label", "--task", "regression", "-q")[2]


def test_formulas_stay_inert_in_ids_and_labels(command, tmp_path, rng):
    columns, _ = flowers(rng, wrong=WRONG)
    columns["name"][4] = '=HYPERLINK("http://evil")'
    columns["species"] = [{"iris": "@iris"}.get(s, s) for s in columns["species"]]
    write_csv(tmp_path / "train.csv", columns)
    code, out, _ = command("detect", "train.csv", "-t", "species", "--id", "name", "--fraction", "0.5", "-q")
    assert code == 0
    cells = [cell for row in csv.reader(out.splitlines()) for cell in row]
    assert '\'=HYPERLINK("http://evil")' in cells
    assert "'@iris" in cells
    assert not [cell for cell in cells if cell.startswith(("=", "@"))]


def test_the_installed_command(tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    done = installed("value", "train.csv", "-t", "species", "--id", "name", cwd=tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 91
    assert "Traceback" not in done.stderr


def test_help_is_quick_and_has_examples():
    code = (
        "import sys, time; from nearworth.cli import main\n"
        "try: main(['--help'], prog_name='nearworth')\n"
        "except SystemExit: pass\n"
        "print(time.process_time(), 'numpy' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, heavy = done.stderr.split()
    assert heavy == "False"
    assert float(seconds) < 0.2
    every = [one for command in main.commands.values() for one in getattr(command, "commands", {"": command}).values()]
    assert all("nearworth " in one.help for one in every), [one.name for one in every if "nearworth " not in one.help]


def test_apply_changes_labels_and_nothing_else(command, tmp_path):
    text = 'a,b,label\n1.50,"x, y",cat\n2,=1+2,dog\n3,"line\nbreak",cat\n\n4,z,dog\n'
    (tmp_path / "train.csv").write_text(text)
    (tmp_path / "d.csv").write_text(
        "row,target,given,decision,label\n0,label,cat,relabel,dog\n3,label,dog,confirm,dog\n"
    )
    code, out, err = command("apply", "d.csv", "train.csv", "-o", "clean.csv")
    assert (code, out) == (0, "")
    assert "1 labels changed, 1 confirmed" in err
    assert "spreadsheet" not in err
    assert Path("clean.csv").read_text() == text.replace(',"x, y",cat', ',"x, y",dog')
    code, _, err = command("apply", "d.csv", "train.csv", "-o", "clean.tsv")  # every cell is written anew
    assert "1 cells that a spreadsheet would run" in err
    before, after = read("train.csv", text_only=True).table, read("clean.tsv", text_only=True).table
    assert after.drop_columns("label").equals(before.drop_columns("label"))
    assert "\t'=1+2\t" in Path("clean.tsv").read_text()
    assert command("apply", "d.csv", "train.csv", "-o", "raw.tsv", "--verbatim", "-q") == (0, "", "")
    assert "\t=1+2\t" in Path("raw.tsv").read_text()


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ("row,target,given,decision,label\n0,label,dog,relabel,cat\n", "made on 'dog'"),
        ("row,target,given,decision,label\n9,label,cat,relabel,dog\n", "row 9"),
        ("row,target,given,decision,label\n0,label,cat,explode,dog\n", "'explode'"),
        ("row,target,given,decision,label\n0,other,cat,relabel,dog\n", "no column 'other'"),
        ("row,target,given,decision,label\n0,label,cat,relabel,dog\n0,label,cat,skip,cat\n", "twice"),
        ("row,given\n0,cat\n", "no column 'decision'"),
        ("row,target,given,decision,label\nx,label,cat,relabel,dog\n", "row number"),
    ],
)
def test_apply_refuses_what_does_not_fit(command, tmp_path, decisions, message):
    (tmp_path / "train.csv").write_text("a,label\n1,cat\n2,dog\n")
    (tmp_path / "d.csv").write_text(decisions)
    code, _, err = command("apply", "d.csv", "train.csv", "-o", "clean.csv", "-q")
    assert code == 2
    assert message in one_line(err)
    assert not Path("clean.csv").exists()


def test_apply_to_other_formats(command, tmp_path):
    made = {"target": "label", "decisions": [{"row": 1, "given": "1", "decision": "relabel", "label": "2"}]}
    (tmp_path / "d.json").write_text(json.dumps(made))
    table = pa.table({"a": [0.5, 1.5, 2.5], "label": pa.array([0, 1, 2], pa.int8())})
    pq.write_table(table, "t.parquet")
    assert command("apply", "d.json", "t.parquet", "-o", "c.parquet", "-q") == (0, "", "")
    changed = read("c.parquet").table
    assert changed.schema.field("label").type == pa.int8()
    assert changed["label"].to_pylist() == [0, 2, 2]
    np.savez("t.npz", X=np.ones((3, 2)), y=[0, 1, 2], extra=[7])
    assert command("apply", "d.json", "t.npz", "-o", "c.npz", "-q") == (0, "", "")
    with np.load("c.npz") as archive:
        assert archive["y"].tolist() == [0, 2, 2]
        assert archive["extra"].tolist() == [7]


def test_a_checkpoint_is_taken_up_again(command, tmp_path, rng):
    columns, _ = flowers(rng)
    write_csv(tmp_path / "train.csv", columns)
    arguments = ("value", "train.csv", "--target", "species", "--ignore", "name", "--checkpoint", "kept")
    assert command(*arguments, "-o", "first.csv")[0] == 0
    code, _, err = command(*arguments, "-o", "second.csv")
    assert code == 0
    assert "90 of 90 validation points came from kept" in err
    assert (tmp_path / "first.csv").read_bytes() == (tmp_path / "second.csv").read_bytes()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k = 'five'\n", "k is 'five'"),
        ("k = 2.5\n", "k is 2.5"),
        ("target = 3\n", "must be text"),
        ("ignore = 4\n", "must be text"),
        ("quiet = 'yes'\n", "must be true or false"),
        ("missing = 'mean'\n", "'mean'"),
        ("k = [1, 2]\n", "must be one integer"),
        ("semivalue = 'owen'\n", "'owen'"),
        ("[detcet]\nk = 3\n", "no command 'detcet'"),
        ("[detect]\nchekpoint = 'x'\n", "no option 'chekpoint'"),
    ],
)
def test_a_config_that_does_not_fit_names_its_file(command, tmp_path, text, message):
    (tmp_path / "a.csv").write_text(GOOD)
    (tmp_path / "run.toml").write_text(text)
    code, out, err = command("detect", "a.csv", "-t", "label", "--config", "run.toml")
    assert (code, out) == (2, "")
    line = one_line(err)
    assert "run.toml" in line
    assert message in line


def test_a_config_for_all_options(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    (tmp_path / "run.toml").write_text(
        'target = "species"\nignore = ["name", "gar*"]\nk = 3\nquiet = true\nsemivalue = "beta:1,4"\n'
        'max-memory = "1GB"\n[value]\noutput = "from.csv"\n[detect]\nmax-fdr = 0.2\n'
    )
    assert command("value", "train.csv", "--config", "run.toml") == (0, "", "")
    given = ["-t", "species", "--ignore", "name", "--ignore", "garden", "-k", "3", "--semivalue", "beta:1,4"]
    assert command("value", "train.csv", *given, "-q", "-o", "said.csv")[0] == 0
    assert Path("from.csv").read_bytes() == Path("said.csv").read_bytes()


def test_every_command_on_data_takes_the_same_model():
    model = {"n_neighbors", "task", "metric", "utility", "semivalue", "search", "max_error", "max_memory", "n_jobs"}
    table = {"target", "validation", "id_column", "ignore", "features", "missing", "max_categories"}
    for name in ("value", "detect", "report", "plan"):
        assert model | table <= {parameter.name for parameter in main.commands[name].params}, name
    for name in ("value", "detect", "report"):
        assert {"dry_run", "quiet", "force", "as_json"} <= {p.name for p in main.commands[name].params}, name


def test_detect_values_as_value_does(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    write_csv(tmp_path / "trusted.csv", flowers(rng, 30)[0])
    data = ["train.csv", "-t", "species", "--id", "name", "-k", "4", "--validation", "trusted.csv", "-q"]
    for model in (["--utility", "original"], ["--semivalue", "banzhaf"], ["--semivalue", "beta:1,4"], []):
        assert command("value", *data, *model, "-o", "v.csv", "--force")[0] == 0
        assert command("detect", *data, *model, "--fraction", "1", "-o", "s.csv", "--force")[0] == 0
        worth, suspects = read("v.csv").table, read("s.csv").table
        np.testing.assert_allclose(worth["value"].to_numpy()[suspects["row"].to_numpy()], suspects["value"], rtol=1e-9)


def test_an_audit_by_a_searcher_keeps_its_promise(command, tmp_path, rng):
    pytest.importorskip("faiss")
    X = rng.normal(size=(700, 3))
    y = (X[:, 0] > 0).astype(int)
    wrong = rng.choice(700, 20, replace=False)
    y[wrong] = 1 - y[wrong]
    np.savez("a.npz", X=X, y=y)
    arguments = ["detect", "a.npz", "--fraction", "1", "--json", "-q", "-k", "3"]
    exact = json.loads(command(*arguments)[1])
    found = json.loads(command(*arguments, "--search", "faiss", "--max-error", "0.05")[1])
    assert exact["error_bound"] == 0
    values = [{row["row"]: row["value"] for row in said["rows"]} for said in (exact, found)]
    assert max(abs(values[0][row] - values[1][row]) for row in range(700)) <= found["error_bound"] + 1e-12
    worst = [{row["row"] for row in said["rows"][:20]} for said in (exact, found)]
    assert len(worst[0] & worst[1]) >= 18
    assert "--max-error" in one_line(command("detect", "a.npz", "--search", "lsh")[2])


def test_report_has_a_summary_for_programs(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng, wrong=WRONG)[0])
    code, out, _ = command("report", "train.csv", "-t", "species", "--id", "name", "-o", "r.html", "--json", "-q")
    said = json.loads(out)
    assert (code, said["command"], said["output"]) == (0, "report", "r.html")
    assert Path("r.html").exists()


def test_plan_of_a_file(command, tmp_path, rng):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    write_csv(tmp_path / "trusted.csv", flowers(rng, 30)[0])
    pq.write_table(read("trusted.csv").table, "trusted.parquet")
    about = ["plan", "train.csv", "-t", "species", "--id", "name"]
    assert "90 validation points against 90 training points" in command(*about)[1]
    for name in ("trusted.csv", "trusted.parquet"):
        assert "30 validation points against 90 training points" in command(*about, "--validation", name)[1]
    np.save("X.npy", rng.normal(size=(50, 4)))
    np.save("y.npy", np.arange(50) % 2)
    said = command("plan", "X.npy", "-t", "y.npy", "--validation", "X.npy")
    assert "50 validation points against 50 training points" in said[1]
    assert command("plan", "100", "20", "-d", "3")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train.csv"], "--target"),
        (["none.csv", "-t", "species"], "no such file"),
        (["100"], "no such file"),
        (["100", "20", "30"], "neither one file nor two sizes"),
        (["0", "20"], "neither one file nor two sizes"),
        (["100", "20", "--target", "x"], "--target is about a file"),
        (["train.csv", "-t", "species", "--id", "name", "--max-memory", "1KB"], "max_memory"),
    ],
)
def test_plan_refuses(command, tmp_path, rng, arguments, message):
    write_csv(tmp_path / "train.csv", flowers(rng)[0])
    code, out, err = command("plan", *arguments)
    assert (code, out) == (2, "")
    assert message in one_line(err)


def test_completion(tmp_path):
    env = environment() | {"_NEARWORTH_COMPLETE": "bash_complete", "COMP_WORDS": "nearworth de", "COMP_CWORD": "1"}
    done = subprocess.run(START, capture_output=True, text=True, check=False, env=env)
    assert {line.split(",")[1] for line in done.stdout.split()} == {"detect", "demo"}
