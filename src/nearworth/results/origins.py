"""Where sums came from, as plain values: what must agree before two of them may be added, and what differs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

Origin = Mapping[str, Any]
# What parts of one sum need not share: their validation points, and the processor (see `kernel`).
OWN = ("validation", "kernel")
WORDS = {"training": "the training data", "validation": "the validation data", "weights": "the weights"}


@cache
def kernel() -> str:
    """The kind of processor, as the BLAS sees it: other kinds round products differently."""
    import numpy  # noqa: F401  # loads its BLAS
    from threadpoolctl import threadpool_info

    kinds = {
        f"{lib['internal_api']} {lib.get('architecture')}" for lib in threadpool_info() if lib["user_api"] == "blas"
    }
    return ", ".join(sorted(kinds))


def differences(one: Origin, other: Origin, ignored: Sequence[str] = OWN) -> list[str]:
    """What keeps two sums from being parts of one, in words."""
    found = []
    for name in sorted({*one, *other} - set(ignored)):
        mine, theirs = one.get(name), other.get(name)
        if mine == theirs:
            continue
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping) and name in ("parameters", "sums"):
            found += [
                f"{key}: {mine.get(key)!r} and {theirs.get(key)!r}"
                for key in sorted({*mine, *theirs})
                if mine.get(key) != theirs.get(key)
            ]
        else:
            found.append(WORDS.get(name, f"{name}: {mine!r} and {theirs!r}"))
    return found


def check_origins(origins: Sequence[Origin]) -> None:
    """Refuse sums that are not parts of one, and warn of those from unlike processors."""
    for other in origins[1:]:
        different = differences(origins[0], other)
        if different:
            raise ValueError(f"These parts do not belong together; they differ in {'; '.join(different)}.")
    warn_of_kernels({origin.get("kernel") for origin in origins})


def warn_of_kernels(kernels: set[Any]) -> None:
    """Say that bits may differ where processors do."""
    if len(kernels) > 1:
        warnings.warn(
            f"Parts come from unlike processors ({'; '.join(sorted(map(str, kernels)))}): the last bits may differ "
            "from those of a run on one of them.",
            stacklevel=4,
        )


def merge_origins(origins: Sequence[Origin]) -> dict[str, Any]:
    """The origin of the whole: that of any part, with the validation sets of all."""
    merged = dict(origins[0])
    sets = {int(start): name for origin in origins for start, name in origin.get("validation", {}).items()}
    if sets:
        merged["validation"] = {str(start): sets[start] for start in sorted(sets)}
    if len({origin.get("kernel") for origin in origins}) > 1:
        merged["kernel"] = "; ".join(sorted({str(origin.get("kernel")) for origin in origins}))
    return merged
