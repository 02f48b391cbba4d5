"""Nodes on other machines: who starts them there, and how what they make comes back."""
