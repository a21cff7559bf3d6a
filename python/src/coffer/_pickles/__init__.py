"""What `coffer.pickles` opens: the names of the list, NumPy's values, the words of a refusal."""
