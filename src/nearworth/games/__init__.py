"""Game theory in rank space: values of ranks, given the labels in rank order.

    coefficients.py    the sequences of every semivalue
    ties.py            sums over blocks of tied ranks
    classification.py  the closed form for matches (uses coefficients, ties)
    regression.py      the closed form for squared errors (uses the linear form of classification)
    owner_game.py      classification whose players are owners of rows, very many of them by random
                       orders; or rows given owned ones (uses coefficients)
    truncation.py      classification from the k nearest ranks: sharp intervals, and how many ranks
                       certify an error

Only numpy, no geometry, no files. All of it is tested against the definition in
`nearworth.testing`. The engine runs the same closed forms in compiled loops with the coefficients
made here, and is tested against these.
"""
