"""Data that stay on disk: from whatever holds them to rows that can be read in blocks and one by one.

    filerows.py   FileRows: rows of an uncompressed file, by positional reads      what everybody else ends in
    npy.py        .npy files and memory maps, read where they lie
    arrow.py      Parquet, Feather and Arrow files, folders and datasets: their columns as a matrix
    chunked.py    zarr, h5py and whatever else has shape, dtype, chunks and slices
    spilling.py   those two written once to a temporary file without a name, which vanishes with its last user
    opening.py    which of all these is meant by what the user gave

A run passes over the training set many times, and asks for single rows in between (docs/decisions/012).
"""
