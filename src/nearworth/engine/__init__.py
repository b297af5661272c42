"""Plan, run, merge.

    problem.py     a checked question: geometry, game, labels, validation points, weights
    plan.py        a memory budget -> how many validation points at a time
    run.py         for each batch of validation points: keys -> ranks -> values -> Partial
    accumulate.py  Partial: sums over validation points; adding them up is exact in its order

        plan ----> run ----> accumulate
                    |
        problem ----+----> neighbors (keys, ranks)
                    +----> games (values)

Values are sums over validation points, so batches, threads, machines and checkpoints are all one merge.
"""
