"""Words that Weft does not say any more, and what it says instead: `*.txt`, beside the glossary of ARCHITECTURE.md."""
