"""Geometry: from points to ranks. Nothing here ever sees a label.

    base.py       what rank keys are: a batch of queries -> (Q, N), smaller is nearer, equal is tied
    keys.py       those of every metric         cosine.py, inner.py   of angles and inner products
    rows.py       training rows as kernels read them, converted in blocks where they must be
    distances.py  squared distances from differences: all pairs, or a few
    sparse.py     the same for sparse rows
    products.py   rough distances from a matrix product, and how far to trust them
    ranking.py    rank keys -> the order of the training points and where ties begin
    twins.py      which training rows are identical

Nearest neighbours only, found by searchers (`fit(X)`, `search(Q, k)`), whose answers are verified:

    searchers.py  the contract of a searcher, Neighbours (what every search returns), checks of answers
    exact.py      all of the nearest, of any metric; exact order of what other searchers found
    lsh.py        the paper's hash tables       lsh_theory.py   how many, what they find, and Theorem 4
    faiss_search.py   an index of faiss, and the only module that imports it
    graph.py      neighbours that were found before
    recall.py     recall on a sample, and what it says about the rest

    searchers <--- exact <--- recall <--- lsh, faiss_search
        ^------ graph

A key need not be a distance; any increasing function of it ranks alike. What matters is that equal distances
give equal keys, so keys are computed pair by pair in 64-bit floats from differences of the data as given.
|x|^2 - 2 x.t moves ties apart and drowns small distances far from the origin: it serves as a hint only.
"""
