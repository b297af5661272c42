"""Files that several processes read, change and replace: one at a time, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from helpers.command_line import environment
from nearworth.tables import InputError
from nearworth.tables.write import locked, write_bytes

COUNT = """
import sys
from pathlib import Path
from nearworth.tables.write import locked, write_bytes
path = Path(sys.argv[1])
for _ in range(10):
    with locked(path):
        number = int(path.read_text())
        write_bytes(str(path), lambda file: file.write(str(number + 1).encode()))
"""


def start(code, *arguments):
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=environment())


def test_no_change_is_lost_and_no_reader_sees_a_part(tmp_path):
    path = tmp_path / "count.json"
    path.write_text("0")
    processes = [start(COUNT, path) for _ in range(3)]
    while any(process.poll() is None for process in processes):
        assert path.read_text().isdecimal()
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert path.read_text() == "30"
    assert os.listdir(tmp_path) == ["count.json"]


def test_threads_take_turns_too(tmp_path):
    path = tmp_path / "count.json"
    path.write_text("0")

    def count():
        for _ in range(10):
            with locked(path):
                number = int(path.read_text())
                write_bytes(
                    str(path), lambda file, number=number: file.write(str(number + 1).encode())
                )

    threads = [threading.Thread(target=count) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() == "30"


def test_a_lock_that_is_held_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr("nearworth.tables.write.MAX_LOCK_SECONDS", 0.2)
    path = tmp_path / "kept.json"
    with locked(path), pytest.raises(InputError) as refused, locked(path):
        pass
    message = str(refused.value)
    assert message.startswith(
        f"{path}: could not be changed: another process has held it for 0.2 seconds"
    )
    assert str(tmp_path / ".kept.json.lock") in message
    with locked(path):  # it is free again
        pass
    assert os.listdir(tmp_path) == []


def test_an_error_gives_the_lock_back(tmp_path):
    with pytest.raises(ZeroDivisionError), locked(tmp_path / "kept.json"):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_the_lock_of_a_process_that_died_is_taken_over(tmp_path):
    path = tmp_path / "kept.json"
    code = "import os, sys; from pathlib import Path; from nearworth.tables.write import locked\n"
    code += "with locked(Path(sys.argv[1])): os._exit(9)"
    assert start(code, path).wait() == 9
    assert os.listdir(tmp_path) == [".kept.json.lock"]
    with locked(path):
        pass
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_to(tmp_path):
    path = Path(tmp_path / "none" / "kept.json")
    with (
        pytest.raises(InputError, match=r"kept.json: could not be written: there is no folder"),
        locked(path),
    ):
        pass
    assert os.listdir(tmp_path) == []
