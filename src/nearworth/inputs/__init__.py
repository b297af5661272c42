"""Input validation: every input is checked here, once, and code behind it can rely on the result.

    parameters.py   the table of constructor parameters and what each may be; seeds to generators
    sources.py      X and y that are not in memory: paths, datasets, zarr and h5py arrays, y as a
                    column of X
    arrow.py        tables: frames, Parquet, Feather and other Arrow data
    file_rows.py    rows of a matrix in a file: .npy files, memory maps, temporary files
    features.py     X in any form -> a numeric matrix with names; its rows in chunks, and its
                    fingerprint
    targets.py      y in any form -> codes of classes, or real targets; weights, row numbers, owners

    fit, value --> PARAMETERS
               --> open_pair (sources) --> map_npy, open_npy, reopen_map (file_rows) --> FileRows
               |                       --> read_arrow (arrow) --> spill (file_rows)
               --> check_features --> read_table (arrow) --> Features
               --> check_classes, check_targets, check_weights
               --> fingerprint

Every message names the argument, says what was found and what to do about it.
"""
