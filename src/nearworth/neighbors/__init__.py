"""Geometry: from points to ranks. Nothing here ever sees a label.

    metrics.py    the name of a metric -> its keys; the metrics that scikit-learn computes
    keys.py       what rank keys are: a batch of queries -> (Q, N), smaller is nearer, equal is a tie; those of
                  distances and inner products         cosine.py   those of angles
    products.py   approximate keys from a matrix product, with bounds of their errors
    distances.py  exact distances and inner products pair by pair: of all pairs, or of a few
    underflow.py  where squared differences would vanish, and the scale at which they do not
    rows.py       training rows as kernels read them, converted in blocks where they must be
    duplicates.py which training rows are identical
    ranking.py    rank keys -> the order of the training points and where ties begin

    metrics ---> keys, cosine ---> products ---> distances ---> rows
                     +---> underflow ---> duplicates ------------^

Nearest neighbours only, found by searchers (`fit(X)`, `search(Q, k)`), whose answers are verified:

    searchers.py  the contract of a searcher, Neighbours (what every search returns), checks of answers
    exact.py      all of the nearest, of any metric; exact order of what other searchers found
    lsh.py        the paper's hash tables       lsh_theory.py   how many, what they find, and Theorem 4
    faiss_search.py   an index of faiss, and the only module that imports it
    graph.py      neighbours that were found before
    recall.py     recall on a sample, and what it says about the rest

    searchers <--- exact <--- recall <--- lsh, faiss_search
        ^------ graph

Equal distances must give equal keys, so keys are computed pair by pair in 64-bit floats from differences of the data as
given. |x|^2 - 2 x.t moves ties apart and drowns small distances far from the origin, so it never decides.
"""
