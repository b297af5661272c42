"""What the commands do, each a function of plain arguments; `cli` lists them and their options.

data.py        files to checked arrays
telling.py     messages for people, summaries for programs
valuing.py  detecting.py  reporting.py  applying.py  planning.py  demonstrating.py
"""
