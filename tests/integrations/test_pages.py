"""The code of the frameworks' pages runs as it stands, from top to bottom."""

import logging
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


# A name that the last block of each page binds.
PAGES = {
    "torchmetrics": "collection",
    "lightning": "scaler",
    "transformers": "scaler",
    "skorch": "scaler",
    "scikit-learn": "display",
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*does not have many workers:UserWarning")
@pytest.mark.filterwarnings("ignore:.*exists and is not empty:UserWarning")
@pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true:UserWarning")  # without an accelerator
@pytest.mark.filterwarnings("ignore:`isinstance.treespec, LeafSpec.` is deprecated:FutureWarning")
@pytest.mark.filterwarnings("ignore:The temperature stopped at its")  # labels of the pages may be random
@pytest.mark.parametrize(("name", "made"), PAGES.items())
def test_the_code_runs(name, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(logging.getLogger("lightning.pytorch"), "level", logging.ERROR)
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / f"{name}.md").read_text(encoding="utf-8"), re.S | re.M)
    assert blocks
    space = {"__name__": "page"}
    for block in blocks:
        exec(compile(block, f"{name}.md", "exec"), space)
    assert space[made] is not None
