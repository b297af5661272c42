"""Geometry: from points to ranks. Nothing here ever sees a label.

    keys.py      a batch of queries -> rank keys (Q, N): smaller is nearer, equal is tied
    ranking.py   rank keys -> the order of the training points and where ties begin
    twins.py     which training rows are identical

A key need not be a distance; any increasing function of it ranks alike. What matters is that equal distances
give equal keys, so keys are computed pair by pair in 64-bit floats from differences of the data as given,
never from |x|^2 - 2 x.t, which moves ties apart and drowns small distances far from the origin.
"""
