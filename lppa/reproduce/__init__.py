"""`lppa reproduce`: the paper's tables and figures, run again and put beside the paper's values."""
