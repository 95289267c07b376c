"""Write the generated parts of README.md; a test holds them against the registry. Run: python docs/update.py."""

import re
from pathlib import Path

from tfexp.registry_view import matrix_markdown

README = Path(__file__).parents[1] / "README.md"


def updated(text: str) -> str:
    """README with the compatibility matrix as the registry has it now."""
    block = f"<!-- matrix -->\n{matrix_markdown()}\n<!-- /matrix -->"
    return re.sub(r"<!-- matrix -->.*?<!-- /matrix -->", lambda _: block, text, flags=re.DOTALL)


if __name__ == "__main__":
    README.write_text(updated(README.read_text(encoding="utf-8")), encoding="utf-8")
