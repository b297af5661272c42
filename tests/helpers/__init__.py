"""What several tests share. No test module imports another one.

- definition.py: values by their definition, in exact fractions.
- cells.py: bounds from counts in cells, in numpy.
- extreme.py: numbers of all sizes, and their exact distances.
- variants.py: the same code with each variant of the compiled library.
- exact_searcher.py: exact search as a searcher.
- runs.py: data, kinds of runs, interruptions and executors.
- noisy_labels.py: data with wrong labels.
- command_line.py: the command as a process, small tables, messages of one line.
- awkward_tables.py: tables as people have them.
- report_pages.py: audits to write pages about, and the data that a page holds.
- browser.py: a headless Chromium and a page in it.
- paper_data.py: the script and the data sets of the paper's experiment.
- same_bits.py: a program that compares every bit of two revisions.
"""
