"""The report: one HTML file to look at suspects, decide on them and take the decisions away.

    page.py                  write_report: a LabelAudit and other columns of the rows -> file
      content.py             what the page says: summary, classes, confusions, suspects, the rows on a plane
        images.py            thumbnails: pixels of rows, or files that a column names
      pictures.py            geometry of the pictures
      page.html.j2           words, tables and pictures (inline SVG), with page.css and page.js
    review_page.py           render_review: rows drawn by chance -> the page for judging them
      review.html.j2         with page.css and review.js

Nothing is fetched or sent: a content security policy allows one script and one style sheet, by their hashes.
Cells of the data reach the page as escaped text or as JSON in which <, > and & are escaped, never as markup.
"""

from nearworth.report.content import Rows
from nearworth.report.page import render_report, write_report

__all__ = ["Rows", "render_report", "write_report"]
