"""The digits of the paper, and what is compared with them."""

from __future__ import annotations

import re

import pytest

from helpers.paper_data import FOLDER, paper


@pytest.mark.skipif(
    not (FOLDER.parent / "paper.tex").is_file(), reason=f"the paper is not in {FOLDER.parent}"
)
def test_printed_digits_are_the_papers():
    text = (FOLDER.parent / "paper.tex").read_text()
    lines = re.findall(r"^\\textbf\{(\w+)\} +&(.*\d.*)\\\\", text, flags=re.M)
    found = {
        name.lower(): [float(re.match(r"\s*([\d.]+)", cell)[1]) for cell in rest.split("&")]
        for name, rest in lines
    }
    assert found == {name: list(digits.values()) for name, digits in paper.PRINTED.items()}


def test_judge():
    judge = paper.judge
    assert judge("pol", "original_C", 0.4375) == "="
    assert judge("pol", "original_C", 0.4371) == "x"
    assert judge("fraud", "original_R", 0.7719) == "~"
    assert judge("fraud", "original_R", 0.781) == "x"
    assert judge("click", "original_C", 0.2034) == "c"
    assert judge("click", "soft_C", 0.2034) == "x"
    for (
        name,
        ranges,
    ) in paper.TIE_RANGES.items():  # the paper's digits are one of the orders of ties
        assert all(low <= paper.PRINTED[name][cell] <= high for cell, (low, high) in ranges.items())
    assert set(paper.TIE_RANGES) == {"fraud", "wind", "cpu", "2dplanes"}
    assert set(paper.OPTIMAL_CLUSTERS) == {"click"}
