"""What every other part may use. Nothing here imports from the other parts.

    types.py     Names for array types and options.
    memory.py    How much memory and how many cores there are, in a container too.
                 Memory: bytes of arrays, and how many threads and queries fit in a budget.
    native.py    The library of compiled C: its variants, its functions, checked calls.
    digits.py    Numbers as text: whether a float holds all of their digits, and one spelling for
                 each.
    files.py     Files that appear under their name only once they are complete. Archives: JSON
                 and arrays in one file, with checksums.
    frames.py    Result tables as frames of pandas, polars or pyarrow, and as HTML.
    text.py      Text from data in one line, with what cannot be seen as escapes. Names that print
                 alike are refused.
    warnings.py  Warnings that point at the caller's own line.

native            --> warnings --> text
frames            --> text
"""
