"""Whether a run will have to wait for the compiler."""

from __future__ import annotations

from nearworth._common.compile import is_kept


def nothing_is_compiled() -> bool:
    """True before the first run of a new installation: then kernels are compiled, which takes a while."""
    from nearworth.engine import regress, tables

    each_run_needs_one = (tables.tabulate, regress.squared_sum_row, regress.soft_row)
    return not any(is_kept(kernel) for kernel in each_run_needs_one)
