"""Pages, one HTML file each: the report, to look at suspects, decide on them and take the decisions
away, and others.

    page.py                  HTML: the report, the review of rows drawn by chance, the statements
                             for owners
      content.py             what the page shows: listed rows, their neighbors, a sample, counts of
                             all rows
        row_numbers.py       how rows are counted: file row, labeled row, shown row
        shown.py             a row as it is shown: cells as texts, an image, a place on the map
      web/                   report and review: page.html.j2, page.css, and the script in parts,
                             whose order is in page.py
      statements.*           the page for owners

Nothing is fetched or sent: a content security policy allows one script and one style sheet, by
their hashes. Cells of the data reach the page as escaped text or as JSON in which <, > and & are
escaped, never as markup.
"""

from nearworth.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
