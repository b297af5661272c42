"""What every other part may use. Nothing here imports from the other parts.

types.py    names for array types and options memory.py   how much memory there is, in a container
too; Memory: bytes of arrays, and how many threads and queries
            fit in a budget; cores
native.py   the library of compiled C: its variants, its functions, checked calls digits.py
numbers as text: whether a float holds all of their digits, and one spelling for each files.py
files that appear under their name only once they are complete; JSON and arrays in one, with a
checksum frames.py   result tables as frames of pandas, polars or pyarrow text.py     text from data
in one line, what cannot be seen as escapes; names that print alike are refused warnings.py warnings
that point at the caller's own line

native            --> warnings --> text
frames            --> text
"""
