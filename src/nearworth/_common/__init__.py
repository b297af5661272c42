"""What every other part may use; nothing here imports the rest of the package.

types.py     names for arrays and options
compile.py   the compiler of kernels
memory.py    how much there is, and how much work needs
files.py     files that appear only once they are complete
archive.py   a JSON description and arrays in one checksummed file      (uses files)
frames.py    columns to pandas, polars or pyarrow
"""
