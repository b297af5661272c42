"""Partial sums as files."""

from __future__ import annotations

import os
from typing import Any

import numpy.typing as npt

from nearworth._common.archive import read_sealed, write_sealed
from nearworth.results.moments import Leaf, Moments
from nearworth.results.origin import Origin
from nearworth.results.partial import Partial

FORMAT = "nearworth part 1"
ARRAYS = ("total", "centre", "spread", "ends")


def write_part(part: Partial, path: str | os.PathLike[str]) -> None:
    """Write a part, atomically and with a checksum."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    nodes = []
    for (level, index), moments in sorted(part._nodes.items()):
        nodes.append([level, index, moments.count, moments.weight, moments.weight_squares])
        present = {name: getattr(moments, name) for name in ARRAYS if getattr(moments, name) is not None}
        arrays |= {f"{level}-{index}-{name}": array for name, array in present.items()}
    description: dict[str, Any] = {"format": FORMAT, "origin": part.origin.to_json(), "nodes": nodes, "open": None}
    if part._open is not None:
        number, leaf = part._open
        numbers, sums = leaf.state()
        description["open"] = [number, numbers]
        arrays |= {f"open-{name}": array for name, array in sums.items()}
    arrays |= {f"note-{name}": note for name, note in part.notes.items()}
    write_sealed(path, description, arrays)


def read_part(path: str | os.PathLike[str]) -> Partial:
    """Read a part."""
    description, arrays = read_sealed(path, "a part")
    if description.get("format") != FORMAT:
        raise ValueError(f"{str(path)!r} is not a part of nearworth: its format is {description.get('format')!r}.")
    part = Partial(Origin.from_json(description["origin"]))
    for level, index, count, weight, squares in description["nodes"]:
        sums = {name: arrays.get(f"{level}-{index}-{name}") for name in ARRAYS}
        part._nodes[level, index] = Moments(count, weight, squares, **sums)  # type: ignore[arg-type]
    if description["open"] is not None:
        number, numbers = description["open"]
        state = {name.removeprefix("open-"): array for name, array in arrays.items() if name.startswith("open-")}
        part._open = (number, Leaf.of_state(numbers, state))
    part.notes = {name.removeprefix("note-"): arrays[name] for name in arrays if name.startswith("note-")}
    return part
