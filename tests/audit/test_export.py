"""Suspects leave in the formats of other tools, and answers come back."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import nearworth as nw
from nearworth.datasets import noisy_digits


@pytest.fixture(scope="module")
def audit():
    data = noisy_digits()
    return nw.audit_labels(data.X, data.y)


def texts(audit):
    return {"text": np.array([f"digit {row}" for row in range(len(audit))])}


def test_label_studio_there_and_back(audit, tmp_path):
    """https://labelstud.io/guide/predictions and /guide/task_format: data, predictions; annotations
    come back.
    """
    audit.export(
        "label-studio", tmp_path / "tasks.json", target="digit", content=texts(audit), fraction=0.01
    )
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    rows = audit.suspects(fraction=0.01).tolist()
    assert [task["data"]["row"] for task in tasks] == rows
    assert tasks[0]["data"]["text"] == f"digit {rows[0]}"
    result = tasks[0]["predictions"][0]["result"][0]
    assert result == {
        "from_name": "digit",
        "to_name": "text",
        "type": "choices",
        "value": {"choices": [str(audit.suggested[rows[0]])]},
    }
    assert tasks[0]["predictions"][0]["score"] == pytest.approx(audit.confidence[rows[0]], abs=1e-6)
    answer = lambda label, **more: {"result": [{**result, "value": {"choices": [label]}}], **more}  # noqa: E731
    tasks[0]["annotations"] = [
        answer("9"),
        answer(str(audit.suggested[rows[0]]), was_cancelled=False),
    ]
    tasks[1]["annotations"] = [answer(str(audit.given[rows[1]]))]
    tasks[2]["annotations"] = [answer("3", was_cancelled=True)]
    (tmp_path / "done.json").write_text(json.dumps(tasks))
    answers = audit.read_answers("label-studio", tmp_path / "done.json", target="digit")
    assert answers.rows.tolist() == rows[:2]
    assert answers.is_wrong.tolist() == [True, False]
    assert [each["decision"] for each in answers.decisions["decisions"]] == ["relabel", "confirm"]


def test_answers_on_a_sample_make_a_review(audit, tmp_path):
    rows = audit.review_sample(30, random_state=1)
    audit.export("fiftyone", tmp_path / "labels.json", rows=rows)
    answers = audit.read_answers(
        "fiftyone", tmp_path / "labels.json"
    )  # as if every suggestion were right
    reviewed = audit.reviewed(answers.rows, answers.is_wrong)
    assert reviewed.n_errors.basis == "review"
    assert (reviewed.quality[answers.rows[answers.is_wrong]] == 0).all()


def test_argilla_there_and_back(audit, tmp_path):
    audit.export("argilla", tmp_path / "a.json", content=texts(audit), fraction=0.01)
    records = json.loads((tmp_path / "a.json").read_text())
    row = int(records[0]["id"])
    assert records[0]["fields"] == {"text": f"digit {row}"}
    assert records[0]["suggestions"]["label"]["value"] == str(audit.suggested[row])
    records[0]["responses"] = {"label": [{"value": str(audit.suggested[row]), "user_id": "a"}]}
    (tmp_path / "b.json").write_text(json.dumps(records))
    assert audit.read_answers("argilla", tmp_path / "b.json").rows.tolist() == [row]


def test_fiftyone_there_and_back(audit, tmp_path):
    audit.export("fiftyone", tmp_path / "labels.json", fraction=0.01)
    content = json.loads((tmp_path / "labels.json").read_text())
    assert [*content] == ["labels"]  # with "classes", labels would have to be numbers of these
    answers = audit.read_answers("fiftyone", tmp_path / "labels.json")  # every suggestion accepted
    assert [each["label"] for each in answers.decisions["decisions"]] == [
        str(x) for x in audit.suggested[answers.rows]
    ]


def test_fiftyone_writes_numbers_of_classes(audit, tmp_path):
    """https://docs.voxel51.com/user_guide/export_datasets.html: targets are classes[target], None
    if unlabelled.
    """
    content = {
        "classes": ["9", "8", str(audit.given[3])],
        "labels": {"3": 2, "4": None, "5": {"label": 0}},
    }
    (tmp_path / "labels.json").write_text(json.dumps(content))
    answers = audit.read_answers("fiftyone", tmp_path / "labels.json")
    assert answers.rows.tolist() == [3, 5]
    assert [each["label"] for each in answers.decisions["decisions"]] == [str(audit.given[3]), "9"]


def test_tables_and_apply(audit, tmp_path, command):
    audit.export("cleanlab", "issues.csv")
    with open("issues.csv", newline="") as file:
        issues = list(csv.DictReader(file))
    assert len(issues) == len(audit)
    assert list(issues[0]) == ["is_label_issue", "label_score", "given_label", "predicted_label"]
    audit.export("csv", "todo.csv", target="digit", fraction=0.01)
    with pytest.raises(ValueError, match="has 0 answers"):
        audit.read_answers("csv", "todo.csv")  # everything is still to be decided
    with open("todo.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    lines[0] |= {"decision": "relabel", "label": lines[0]["suggested"]}
    with open("done.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, lines[0])
        writer.writeheader()
        writer.writerows(lines)
    answers = audit.read_answers("csv", "done.csv", target="digit")
    answers.save("decisions.json")
    with open("train.csv", "w") as file:
        file.write(
            "digit,a\n"
            + "\n".join(f"{label},{row}" for row, label in enumerate(audit.given))
            + "\n"
        )
    code, _, err = command("apply", "decisions.json", "train.csv", "-o", "clean.csv")
    assert code == 0, err
    with open("clean.csv") as file:
        assert (
            file.read().split()[1 + answers.rows[0]] == f"{lines[0]['suggested']},{answers.rows[0]}"
        )


def test_strange_answers_and_tools(audit, tmp_path):
    (tmp_path / "a.json").write_text('{"labels": {"99999": "1"}}')
    with pytest.raises(ValueError, match="rows beyond"):
        audit.read_answers("fiftyone", tmp_path / "a.json")
    with pytest.raises(ValueError, match="tool"):
        audit.export("prodigy", tmp_path / "b.json")
    with pytest.raises(ValueError, match="tool"):
        audit.read_answers("cleanlab", tmp_path / "b.json")
