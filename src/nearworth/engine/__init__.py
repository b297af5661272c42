"""Plan, run, merge.

    problem.py     a checked question, and who answers it query by query
    plan.py        a memory budget -> threads, batches, which keys      calibrate.py how long that takes here
    run.py         threads over leaves of validation points; progress, interruption
    accumulate.py  Partial: sums over validation points along a fixed tree   moments.py   their leaves
    parts.py       Partial as files   origins.py   where it came from    checkpoint.py   a folder with the latest one
    distributed.py the same sums on any executor                         stored.py   training sets that workers can read
    classify.py    marks of keys, pivots, who settles doubts            kernels.py, tables.py   its compiled loops
    regress.py     compiled loops of regression                         progress.py  bars and callbacks
    first_run.py   whether the compiler has to run first

        plan ----> run ----> accumulate
                    |
        problem ----+----> neighbors (keys, products, exact distances)
                    +----> games (coefficients)

Values are sums over validation points, so batches, threads, machines and checkpoints are all one merge.
"""
