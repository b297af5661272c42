"""Tables in files: read, prepared for distances, written.

reading.py     path -> Table or arrays; every strange file is one InputError that names it
delimited.py   CSV and TSV: encoding, delimiter, quotes, shape
formulas.py    cells a spreadsheet would run, made inert and restored
cells.py       what cells hold, whatever their Arrow type
columns.py     what one column becomes: numbers, 0/1 columns, an embedding, nothing
learning.py    from a training column to what it becomes, or a refusal with advice
preparing.py   TablePreparer, the scikit-learn transformer over all columns
writing.py     format by extension, atomic, never over an existing file unasked
"""
