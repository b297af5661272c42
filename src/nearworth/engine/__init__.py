"""From a training set and a question to sums over validation points, and to a Valuation.

    problem.py      TrainingSet: checked training points and what ranks them.
                    Problem: validation points against them.
    plan.py         Method: which neighbors are ranked, what finds them, what stands for the
                    others, and why.
                    Plan: threads, batches, time, and memory, added up from what each owner of
                    arrays states.
    run.py          The loop. Evaluator: the one contract. Request: what to sum up. Span: which
                    leaves. NearestLists: the nearest points of every query, recorded while the
                    queries are valued. Threads, progress, interruption.
    value.py        The one sequence: problem, method, plan, run, Valuation.

    reference.py    The value of every row for one query, in a dozen lines of numpy. Read it first.
    classify.py     The evaluator of classification: how a block of queries is valued, from keys
                    to sums.
    regress.py      The evaluator of regression.
    truncate.py     The evaluator where few neighbors are ranked: values with certified intervals.
                    Candidates come from exact search, or from a searcher, which is evaluated on a
                    sample.
    evaluators.py   Which of these evaluators computes the values of a method.
    interruption.py How much is computed before a run can be stopped.

    rules.py        Other games of rows: candidates given owned rows, votes within a radius, votes
                    weighted by distance.
    owner_rules.py  The game in which owners of rows are the players.

    checkpoint.py   A folder with the sums so far.
    cluster.py      The same sums on any executor. The training set is in files that workers can
                    read.

        TrainingSet --> Problem --> Method --> Plan --> run --> Partial --> Valuation
                                      |                  |
                                      +--> Evaluator.add(leaf, start, stop, request)

Values are sums over validation points. Therefore batches, threads, machines and checkpoints all
come down to merging sums.
"""
