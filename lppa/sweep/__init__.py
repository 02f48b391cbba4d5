"""`lppa sweep`: all combinations of some settings, over seeds, as one table and one picture.

The cells, the file that keeps them and the workers that run them are those of `lppa reproduce`.
"""
