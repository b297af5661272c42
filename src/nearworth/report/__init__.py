"""Pages, one HTML file each: the report, to look at suspects, decide on them and take the decisions
away, and others.

    page.py                  the report, the review of rows drawn by chance, the statements for
    owners -> HTML
      content.py             what the page shows: listed rows, their neighbours, a sample, counts of
      all
        row_numbers.py       what a row is called: row of the file, labeled row, shown row
        shown.py             a row as it is shown: cells as texts, a thumbnail, a place on the map
      web/                   report and review: page.html.j2, page.css, the script in parts (page.py
      has their order) statements.*           the page for owners

Nothing is fetched or sent: a content security policy allows one script and one style sheet, by
their hashes. Cells of the data reach the page as escaped text or as JSON in which <, > and & are
escaped, never as markup.
"""

from nearworth.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
