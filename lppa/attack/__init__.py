"""Attacker node mode: what an honest-but-curious neighbour can make of what it receives."""
