"""How a claim of DONE is judged: the check, the baseline, clean checkouts, protected files."""
