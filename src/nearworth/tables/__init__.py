"""Tables in files: read, prepared for distances, written.

    path --> read.py --> Source(table) --> prepare.py: TablePreparer --> matrix
               |                              |
          csv_read.py                     columns.py
               |
          csv_cells.py <-- write.py <-- results

errors.py      InputError, and the words that messages share
read.py        a path to a Source (a table, or arrays): CSV, TSV, Parquet, Feather, npz, npy
csv_read.py    CSV of any origin: encoding, delimiter, decimal comma
csv_cells.py   the text of CSV cells: formula guard, quotes, new labels in place of old ones
columns.py     what each kind of column becomes: numbers, categories, embedding
prepare.py     TablePreparer, the scikit-learn transformer over all columns
write.py       columns to a file: CSV, TSV, Parquet, Feather, JSON; atomic
"""
