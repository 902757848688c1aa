"""Text that would run or mislead if a page let it through: the strings, a database full of them, and its reader."""
