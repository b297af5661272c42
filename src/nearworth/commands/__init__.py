"""What the commands do. `cli.py` lists them and their options; here each is a function of plain arguments.

shell.py       errors to one line and an exit code
options.py     options that several commands share, config files
data.py        files to checked arrays
valuing.py  detecting.py  reporting.py  applying.py  demonstrating.py
"""
