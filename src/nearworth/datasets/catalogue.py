"""The thirteen datasets of the paper's Table 1: where they are, what they hash to, and what cannot be had."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Entry:
    """One dataset.

    `sha256` is that of the arrays in the local file. `stand_in` says why that file is not the paper's data, and
    `openml_stand_in` why what OpenML has cannot be; both are None where it is, or may be, the same. `unavailable`
    says why there is nothing at all.
    """

    file: str | None = None
    sha256: str | None = None
    images: bool = False
    openml: int | None = None
    positive: str | None = None
    stand_in: str | None = None
    openml_stand_in: str | None = None
    unavailable: str | None = None

    @property
    def arrays(self) -> tuple[str, ...]:
        """Names of the arrays that count in the file."""
        return ("x_train", "y_train", "x_test", "y_test") if self.images else ("X", "y")


OTHER_ROWS = (
    "the whole dataset of OpenML, of which the authors used a sample of 10,000 rows that is not published there"
)

CATALOGUE: dict[str, Entry] = {
    "mnist": Entry(
        "mnist.npz", "ba535720e34aa25563a612aab859d588ec5448d06a9cca40cdfce7f35d1e21c3", images=True, openml=554
    ),
    "fmnist": Entry(
        "fmnist.npz", "8bb3dc657eddfbb8f4751b13fdd086f235802fa40592cee4205ff981905e3efa", images=True, openml=40996
    ),
    "cifar10": Entry(
        "cifar10_catdog_features.npz",
        "d8d56414444c7aacca237c8e8bf5ee64b76e47feaab0a8f98be6d9123b221c62",
        images=True,
        stand_in="ResNet50 features in 512 dimensions; the authors' ResNet18 features are not to be had",
    ),
    "fraud": Entry(
        "fraud.npz",
        "e8c8af0dfbce37b8a36d13c0d82b0febe8b9f9e7c7c869d718ce5570d597a21a",
        openml=42397,
        positive="1",
        openml_stand_in=OTHER_ROWS,
    ),
    "creditcard": Entry(
        "creditcard.npz",
        "0edc764fa402bcd1f2d01c8f0d9f8b4fcbb3b0fe4161fffac3f1608159299d11",
        openml=42477,
        positive="1",
        openml_stand_in=OTHER_ROWS,
    ),
    "vehicle": Entry(
        unavailable="Duarte and Hu's vehicle data was not found, neither as the authors' file nor on OpenML"
    ),
    "apsfail": Entry(
        "apsfail_subset.npz",
        "c2417564f01f9bf0802e4bcf0d4d317d66fccbed0f046d1e4ed507d38700f356",
        openml=41138,
        positive="pos",
        stand_in="16,783 other rows of the same dataset; the authors' sample is not to be had",
        openml_stand_in=OTHER_ROWS,
    ),
    "click": Entry(
        "click.npz",
        "8a94dd104083caf62c92690e92d8f75b20a68922c00b0df2b55936f811edb621",
        openml=1218,
        positive="1",
        openml_stand_in=OTHER_ROWS,
    ),
    "phoneme": Entry(
        "phoneme.npz", "d4797f9ee3939ae7930715d8d1661e1f61fb61af5d83d920d2765fb50ebe0b31", openml=1489, positive="2"
    ),
    "wind": Entry(
        "wind.npz", "e2931b2aef4778a23080bb9ee082360e24101784a4d2c021ce8275ca2b0f0e53", openml=847, positive="P"
    ),
    "pol": Entry(
        "pol.npz",
        "485bb02b817705d3ee7a0835c5920d7014bed797e6d7a96d4f0130c13967f191",
        openml=722,
        positive="P",
        openml_stand_in=OTHER_ROWS,
    ),
    "cpu": Entry(
        "cpu.npz", "13cb28708f6b68cffc52705eb357c8bc6e059ff2ee8774ca45b7bb19a99fc9e4", openml=761, positive="P"
    ),
    "2dplanes": Entry(
        "2dplanes.npz",
        "89a3ac5825aa89f379ec210d8947eb80ce34b23f1c3712d4dac687b44a5c7deb",
        openml=727,
        positive="P",
        openml_stand_in=OTHER_ROWS,
    ),
}
NAMES = tuple(CATALOGUE)


def sha256_of(arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """Hash of arrays with their names, types and shapes; layout in memory and byte order do not matter."""
    digest = hashlib.sha256()
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(f"{name} {little.dtype.str} {little.shape} ".encode())
        digest.update(little.data)
    return digest.hexdigest()
