"""What may hold shares to their parts of a GPU: what each guarantees, and which shares it can give."""
