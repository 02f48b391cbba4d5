"""Totals over the results of several calls, as a table for a document.

Usage: python -m lppa.attack.totals FILE...   (what `lppa attack --json` printed)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lppa.attack.results import AttackResult
from lppa.attack.tables import markdown


def main(files: list[str]) -> None:
    """Prints one row for each kind of attack, with counts and means over its results."""
    contents = [json.loads(Path(file).read_text()) for file in files]
    print(markdown([AttackResult.from_dict(result) for some in contents for result in some]))


if __name__ == "__main__":
    main(sys.argv[1:])
