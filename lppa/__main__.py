"""`python -m lppa`: the same as `lppa`, where the command is not on the path."""

from __future__ import annotations

from lppa.cli import main

if __name__ == "__main__":
    main(prog_name="lppa")
