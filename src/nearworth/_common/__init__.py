"""What every other part may use; nothing here imports from them.

types.py    names for array types and options
memory.py   how much memory there is, inside a container too
compile.py  compiling of kernels when they are first called
files.py    files that appear under their name only once they are complete
archive.py  JSON and arrays in one file with a checksum --> files.py
frames.py   result tables as frames of pandas, polars or pyarrow

inputs --> memory, types        neighbors --> compile, files, memory, types    games --> types
results --> archive, files, frames, compile, types                       engine --> all but frames
"""
