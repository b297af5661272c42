"""Images in the page: which are embedded, and how many."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from helpers.report_pages import embedded, made_up
from nearworth.report import shown
from nearworth.report.page import render_report
from nearworth.report.shown import image_files, image_order, pixels
from nearworth.tables.dataset import Dataset

PNG = b"\x89PNG\r\n\x1a\n"


def write_image(path, size):
    path.write_bytes(PNG + bytes(size - len(PNG)))


def test_image_files_are_embedded_and_others_are_not(rng, tmp_path):
    (tmp_path / "good.png").write_bytes(b"\x89PNG\r\n\x1a\n rest")
    (tmp_path / "secret.png").write_text("not an image")
    names = np.array(
        [("good.png", "secret.png", "absent.png", "\0")[i % 4] for i in range(40)], dtype=object
    )
    audit = made_up(rng, 40, 40, ["a", "b"])
    page = render_report(audit, Dataset(image_names=names, image_folder=tmp_path))
    pictures = embedded(page)["pictures"]
    assert {int(row) for row in pictures} == {row for row in range(40) if row % 4 == 0}
    assert all(picture.startswith("data:image/png;base64,") for picture in pictures.values())


@pytest.mark.parametrize("more", [0, 1])
def test_files_up_to_the_size_limit(tmp_path, more):
    write_image(tmp_path / "a.png", shown.FILE_BYTES + more)
    assert set(image_files(tmp_path, {3: "a.png"})["pictures"]) == (set() if more else {"3"})


def test_files_up_to_the_size_of_all(tmp_path, monkeypatch):
    """One that no longer fits is skipped; a smaller one after it may fit."""
    monkeypatch.setattr(shown, "ALL_FILES_BYTES", 250)
    for name, size in {"a": 100, "b": 100, "c": 51, "d": 50, "e": 20}.items():
        write_image(tmp_path / name, size)
    found = image_files(tmp_path, dict(enumerate("abcde")))["pictures"]
    assert set(found) == {"0", "1", "3"}
    assert found["3"] == "data:image/png;base64," + base64.b64encode(PNG + bytes(42)).decode()


def test_kinds_of_images(tmp_path):
    starts = {"jpeg": b"\xff\xd8\xff", "gif": b"GIF89a", "webp": b"RIFF1234WEBP"}
    for number, (kind, start) in enumerate(starts.items()):
        (tmp_path / "image").write_bytes(start + b" rest")
        found = image_files(tmp_path, {number: "image"})["pictures"][str(number)]
        assert found.startswith(f"data:image/{kind};base64,")


def test_pixels_as_far_as_there_is_room(monkeypatch):
    X = np.arange(40.0).reshape(10, 4)
    monkeypatch.setattr(shown, "PIXEL_BYTES", 12)
    found = pixels(X, (2, 2), [7, 1, 3, 0])
    assert list(found["images"]) == ["7", "1", "3"]
    assert found["imageShape"] == [2, 2]
    scaled = ((X[7] - 4) / (31 - 4) * 255).round().astype(np.uint8)
    assert base64.b64decode(found["images"]["7"]) == scaled.tobytes()
    monkeypatch.setattr(shown, "PIXEL_BYTES", 3)
    assert list(pixels(X, (2, 2), [7, 1])["images"]) == ["7"]


def test_suspects_come_before_their_neighbours():
    assert image_order(np.array([4, 2]), [[5, 6], [4, 7]]) == [4, 2, 5, 6, 7]


def test_thumbnails_take_a_few_megabytes_of_a_page_however_many_rows_there_are():
    found = pixels(np.zeros((5_000, 1_024)), (32, 32), list(range(5_000)))["images"]
    assert len(found) > 1_000
    assert sum(map(len, found.values())) < 5_000_000


def test_images_stay_below_the_folder(tmp_path):
    inside = tmp_path / "data"
    outside = tmp_path / "elsewhere"
    for folder in (inside, outside, inside / "more"):
        folder.mkdir()
        (folder / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n rest")
    (inside / "link.png").symlink_to(outside / "a.png")
    (inside / "round").symlink_to(inside / "round")
    names = [
        "a.png",
        "more/../a.png",
        "more/a.png",
        "../elsewhere/a.png",
        str(outside / "a.png"),
        "link.png",
        "round/a.png",
        "a\0.png",
    ]
    found = image_files(inside, dict(enumerate(names)))["pictures"]
    assert list(found) == ["0", "1", "2"]
    allowed = image_files(inside, dict(enumerate(names)), tmp_path)["pictures"]
    assert list(allowed) == ["0", "1", "2", "3", "4", "5"]


def test_only_images_of_known_types(tmp_path):
    contents = [
        b"RIFF1234WAVEfmt ",
        b"RIFF1234WEBPVP8 ",
        b"<svg onload='x'>",
        b"GIF89a..",
        b"GIF8..",
        b"\xff\xd8\xff\xe0",
    ]
    for i, content in enumerate(contents):
        (tmp_path / f"{i}.png").write_bytes(content)
    found = image_files(tmp_path, {i: f"{i}.png" for i in range(len(contents))})["pictures"]
    assert {row: url[:15] for row, url in found.items()} == {
        "1": "data:image/webp",
        "3": "data:image/gif;",
        "5": "data:image/jpeg",
    }
