"""Every variant of the compiled library, and the numpy forms without it, in one process."""

from __future__ import annotations

import pytest

from helpers.variants import variants_here
from nearworth._common import native


@pytest.fixture(params=variants_here())
def variant(request, monkeypatch):
    """The numpy forms ("0"), or one variant of the library."""
    loaded = None if request.param == "0" else native.open_variant(request.param)
    monkeypatch.setattr(native, "library", lambda: loaded)
    return request.param
