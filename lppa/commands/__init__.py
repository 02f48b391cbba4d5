"""The commands: thin shells over functions that can be imported."""
