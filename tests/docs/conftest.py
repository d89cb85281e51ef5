"""Where the reference is written from: a folder that is no package, found as mkdocs and `make reference` find it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "site"))
