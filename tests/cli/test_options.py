"""Options from a TOML file."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.command_line import GOOD, WRONG, flowers, one_line, write_csv


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


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k = 'five'\n", "k is 'five'"),
        ("k = 2.5\n", "k is 2.5"),
        ("target = 3\n", "must be text"),
        ("ignore = 4\n", "must be text"),
        ("quiet = 'yes'\n", "must be true or false"),
        ("rule = 'mean'\n", "'mean'"),
        ("k = [1, 2]\n", "must be one integer"),
        ("semivalue = 'owen'\n", "'owen'"),
        ("[detcet]\nk = 3\n", "no command 'detcet'"),
        ("[detect]\nchekpoint = 'x'\n", "no option 'chekpoint'"),
        (f"k = {'[' * 5_000}{']' * 5_000}\n", "nested too deeply"),
        (f"[detect.k{'.a' * 5_000}]\nb = 1\n", "nested too deeply"),
        (f"k = {'7' * 5_000}\n", "is not TOML"),
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
