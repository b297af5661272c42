"""From a training set and a question to sums over validation points, and from these to a Valuation.

    problem.py   TrainingSet: checked training data with their keys.  Problem: validation points
    against them plan.py      Method: which neighbours are ranked, what finds them, what stands for
    the others, and why.
                 Plan: threads, batches, memory (added up from what each owner of arrays states),
                 time
    run.py       the loop: Evaluator (the one contract), Request, Span, threads, progress,
    interruption; NearestLists:
                 the nearest points of every query, recorded while the queries are valued
    value.py     the one sequence: problem -> method -> plan -> run -> Valuation

    reference.py the value of every row for one query, in a dozen lines of numpy: the reading path
    classify.py  the evaluator of classification: how a block of queries is valued, from keys to
    sums regress.py   the evaluator of regression truncate.py  the evaluator where few neighbours
    are ranked: values with certified intervals; candidates for that
                 from exact search or from a searcher, which is evaluated on a sample
    evaluators.py    which of these evaluators computes the values of a method
    interruption.py  how much is computed before a run can be stopped

    rules.py     other games of rows: candidates given owned rows, votes within a radius, votes
    weighed by distance
    owner_rules.py   the game in which owners of rows are the players

    checkpoint.py   a folder with the sums so far cluster.py      the same sums on any executor,
    with the training set in files that workers can read

        TrainingSet --> Problem --> Method --> Plan --> run --> Partial --> Valuation
                                      |                  |
                                      +--> Evaluator.add(leaf, start, stop, request)

Values are sums over validation points, so batches, threads, machines and checkpoints are all one
merge.
"""
