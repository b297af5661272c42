"""Formulas as MathML, which browsers draw themselves: no script, no network. The converter is
docutils' own.
"""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def inline(translator: Any, node: nodes.math) -> None:
    """A formula within a sentence."""
    translator.body.append(_converted(node, as_block=False))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    """A formula of its own, which may scroll on a narrow screen."""
    translator.body.append(f'<div class="formula">{_converted(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _converted(node: nodes.Element, *, as_block: bool) -> str:
    try:
        return str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        logger.warning("a formula that docutils cannot convert: %s", error, location=node)
        return f"<code>{escape(node.astext())}</code>"


def setup(app: Any) -> dict[str, bool]:
    """Make it the renderer called "mathml"."""
    app.add_html_math_renderer(
        "mathml", inline_renderers=(inline, None), block_renderers=(block, None)
    )
    return {"parallel_read_safe": True, "parallel_write_safe": True}
