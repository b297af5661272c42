"""Geometry: from points to ranks. Nothing here ever sees a label.

    keys.py       what rank keys are, and the keys of every metric: a batch of queries -> (Q, N),
                  smaller is nearer, equal is a tie
    quantised.py  keys as whole numbers with a tolerance, as the compiled kernels read them: from a
                  matrix product, with bounds of its errors, or from exact keys
    distances.py  training rows as kernels read them, and which of them are identical; exact
                  distances and inner products of all pairs, or of a few

    keys ---> quantised ---> distances

Nearest neighbors only, found by searchers (`fit(X)`, `search(Q, k)`), whose answers are verified:

    searchers.py     the contract of a searcher, Neighbours (what every search returns), checks of
                     answers, and a searcher of neighbors that were found before
    exact.py         the nearest of any metric; recall of what other searchers find, and how these
                     are tuned
    lsh.py           the paper's hash tables: how many, what they find, and Theorem 4
    faiss_search.py  an index of faiss, and the only module that imports it

    searchers <--- exact <--- lsh, faiss_search

Equal distances must give equal keys, so keys are computed pair by pair in 64-bit floats from
differences of the data as given. |x|^2 - 2 x.t moves ties apart and drowns small distances far from
the origin, so it never decides.
"""
