"""Warnings that point at the user's own line, however deep in the package they arise."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

from nearworth._common.text import one_line

PACKAGE = str(Path(__file__).parents[1]) + os.sep


def warn_user(message: str) -> None:
    """Warn at the nearest call that comes from outside the package."""
    depth = 1
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        depth += 1
        frame = frame.f_back
    warnings.warn(one_line(message), stacklevel=depth)
