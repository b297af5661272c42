"""Say whether every OpenBLAS uses a kernel: python tests/golden/kernel.py Haswell

numpy and scipy bring one OpenBLAS each. OPENBLAS_CORETYPE chooses the kernel of both. A library
that was built without that kernel takes another one, and says nothing.
"""

from __future__ import annotations

import sys

import scipy.linalg  # noqa: F401  (loads the OpenBLAS of scipy)
from threadpoolctl import threadpool_info


def check_kernel(expected: str) -> None:
    """Exit with a message unless this is the kernel of every OpenBLAS."""
    libraries = [library for library in threadpool_info() if library["internal_api"] == "openblas"]
    if not libraries:
        sys.exit("no OpenBLAS is loaded: there is no kernel to choose")
    for library in libraries:
        found = library["architecture"]
        if found != expected:
            sys.exit(f"{library['filepath']}: the kernel is {found}, not {expected}")


if __name__ == "__main__":
    check_kernel(sys.argv[1])
