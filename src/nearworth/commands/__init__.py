"""What the commands do, each a function of plain arguments; `cli` lists them and their options.

data.py        files to checked arrays
naming.py      columns that are not there: what may have been meant
warning.py     what is allowed but probably not meant
telling.py     messages for people, summaries for programs
valuing.py  detecting.py  reporting.py  applying.py  planning.py  demonstrating.py
"""
