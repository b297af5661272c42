"""What every other part may use. Nothing here imports from the other parts.

types.py    names for array types and options
memory.py   how much memory there is, in a container too, how much arrays need, and how many cores
compile.py  compiling of kernels when they are first called
files.py    files that appear under their name only once they are complete
archive.py  JSON and arrays in one file with a checksum
frames.py   result tables as frames of pandas, polars or pyarrow

inputs    --> memory, types
games     --> types
neighbors --> compile, files, memory, types
results   --> archive --> files
          --> compile, frames, types
engine    --> compile, files, memory, types
audit, curves --> frames, types
tables, report, paper, cli --> files, memory, types
"""
