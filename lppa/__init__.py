"""Decentralized federated learning with lossless privacy-preserving aggregation."""
