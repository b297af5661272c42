"""Names for array types and options that occur all over the package."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

# A matrix has Q rows, one for each validation point ("query"), and N columns, one for each training
# point in the order of the points, or of their ranks where the name says so.
FloatMatrix: TypeAlias = npt.NDArray[np.float64]
BoolVector: TypeAlias = npt.NDArray[np.bool_]
BoolMatrix: TypeAlias = npt.NDArray[np.bool_]
IntMatrix: TypeAlias = npt.NDArray[np.intp]
FloatVector: TypeAlias = npt.NDArray[np.float64]
IntVector: TypeAlias = npt.NDArray[np.intp]
IntMatrix32: TypeAlias = npt.NDArray[np.int32]
IntVector32: TypeAlias = npt.NDArray[np.int32]

Task: TypeAlias = Literal["classification", "regression"]
Utility: TypeAlias = Literal["soft", "original"]
Ties: TypeAlias = Literal["average", "index"]
Aggregate: TypeAlias = Literal["mean", "sum"]
Semivalue: TypeAlias = (
    Literal["shapley", "banzhaf", "loo", "composite"]
    | tuple[Literal["beta"], float, float]
    | tuple[Literal["sizes"], int, int | None]
)
