"""Suspects go into the tools themselves, where these are installed, and answers come back.

Label Studio: `label-studio` on the path, or its path in NEARWORTH_LABEL_STUDIO (it may be in an
environment of its own). Its server runs on this machine with a database in a temporary folder;
starting it takes half a minute. Argilla: its client in this environment.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

import nearworth as nw
from nearworth.datasets import noisy_digits

PROGRAM = os.environ.get("NEARWORTH_LABEL_STUDIO") or shutil.which("label-studio")
# Seconds.
TOKEN = "f" * 40
PATIENCE = 240


@pytest.fixture(scope="module")
def audit():
    data = noisy_digits()
    return nw.audit_labels(data.X, data.y)


def export(audit, tool, path):
    audit.export(
        tool,
        path,
        target="digit",
        content={"text": [f"digit {row}" for row in range(len(audit))]},
        fraction=0.01,
    )
    return audit.suspects(fraction=0.01).tolist()


@pytest.fixture
def ask(tmp_path):
    """A function that asks a Label Studio of this test: a path, and what to send."""
    if PROGRAM is None:
        pytest.skip(
            "label-studio is not installed (pip install label-studio, or NEARWORTH_LABEL_STUDIO=its"
            " path)"
        )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    user = [
        "--username",
        "a@example.org",
        "--password",
        "secret word",
        "--user-token",
        TOKEN,
        "--enable-legacy-api-token",
    ]
    where = [
        "--data-dir",
        str(tmp_path),
        "--internal-host",
        "127.0.0.1",
        "--port",
        str(port),
        "--no-browser",
    ]
    quiet = {"LATEST_VERSION_CHECK": "false", "COLLECT_ANALYTICS": "false"}

    def ask(path, content=None):
        body = None if content is None else json.dumps(content).encode()
        headers = {"Authorization": f"Token {TOKEN}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    with (tmp_path / "log").open("w") as log:
        command = [PROGRAM, "start", *where, *user]
        server = subprocess.Popen(command, env=os.environ | quiet, stdout=log, stderr=log)
        try:
            _wait(lambda: ask("/api/projects"), server)
            yield ask
        finally:
            server.terminate()
            server.wait(60)


def _wait(question, server):
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return question()
        except (urllib.error.URLError, ConnectionError):
            assert server.poll() is None, "Label Studio did not start"
            assert time.monotonic() < end, "Label Studio did not answer in time"
            time.sleep(1)


def test_a_label_studio_takes_tasks_and_gives_answers(audit, tmp_path, ask):
    rows = export(audit, "label-studio", tmp_path / "tasks.json")
    choices = "".join(f'<Choice value="{label}"/>' for label in audit.classes)
    view = (
        '<View><Text name="text" value="$text"/><Choices name="digit"'
        f' toName="text">{choices}</Choices></View>'
    )
    project = ask("/api/projects", {"title": "digits", "label_config": view})["id"]
    done = ask(f"/api/projects/{project}/import", json.loads((tmp_path / "tasks.json").read_text()))
    assert (done["task_count"], done["prediction_count"]) == (len(rows), len(rows))
    first, second, third = ask(f"/api/tasks?project={project}&fields=all")["tasks"][:3]
    assert [task["data"]["row"] for task in (first, second, third)] == rows[:3]
    accepted = first["predictions"][0]["result"]
    kept = copy.deepcopy(accepted)
    kept[0]["value"]["choices"] = [second["data"]["given"]]
    ask(f"/api/tasks/{first['id']}/annotations/", {"result": accepted})
    ask(f"/api/tasks/{second['id']}/annotations/", {"result": kept})
    ask(f"/api/tasks/{third['id']}/annotations/", {"result": accepted, "was_cancelled": True})
    (tmp_path / "done.json").write_text(
        json.dumps(ask(f"/api/projects/{project}/export?exportType=JSON"))
    )
    answers = audit.read_answers("label-studio", tmp_path / "done.json", target="digit")
    assert answers.rows.tolist() == rows[:2]
    assert answers.is_wrong.tolist() == [True, False]
    assert answers.decisions["decisions"][0]["label"] == str(audit.suggested[rows[0]])


def test_argilla_reads_and_writes_the_records(audit, tmp_path):
    pytest.importorskip("argilla", reason="argilla is not installed (pip install argilla requests)")
    from argilla import Response
    from argilla.records._io import JsonIO

    rows = export(audit, "argilla", tmp_path / "records.json")
    records = JsonIO._records_from_json(tmp_path / "records.json")
    assert [int(record.id) for record in records] == rows
    assert records[0].suggestions["digit"].value == str(audit.suggested[rows[0]])
    records[0].responses.add(
        Response(
            "digit", str(audit.suggested[rows[0]]), user_id="00000000-0000-0000-0000-000000000001"
        )
    )
    JsonIO.to_json(records, tmp_path / "done.json")
    answers = audit.read_answers("argilla", tmp_path / "done.json", target="digit")
    assert (answers.rows.tolist(), answers.is_wrong.tolist()) == (rows[:1], [True])
