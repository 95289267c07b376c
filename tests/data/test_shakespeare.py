"""Tiny Shakespeare as nanoGPT prepares it; the text is not part of the repository."""

from pathlib import Path

import pytest

from tests.real_data import FOLDER
from tfexp.data.prepare import prepare
from tfexp.registry import check_choice

TEXT = next((p for p in (FOLDER / "tinyshakespeare").glob("*.txt") if p.stat().st_size == 1_115_394), Path("none"))


@pytest.mark.skipif(not TEXT.is_file(), reason="no tiny Shakespeare below TFEXP_TEST_DATA")
def test_tiny_shakespeare_has_the_published_sizes(tmp_path):
    tokenizer = {"name": "char", "specials": []}
    node = check_choice("data", {"name": "text_files", "train": str(TEXT), "tokenizer": tokenizer}, "data")
    data = prepare(node, tmp_path)
    assert data.tokenizer.vocab_size == 65
    # nanoGPT, data/shakespeare_char/readme.md.
    assert {name: len(part.ids) for name, part in data.parts.items()} == {"train": 1_003_854, "val": 111_540}
    assert data.tokenizer.decode(data.parts["train"].ids[:14].tolist()) == "First Citizen:"
