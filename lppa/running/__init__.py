"""A run from its settings to its record: prepared, launched, followed, examined."""
