"""What people look at: report.html from a run's directory, the live page, and event files.

Reads the files that a run leaves; knows nothing of sockets, nodes or PyTorch.
"""
