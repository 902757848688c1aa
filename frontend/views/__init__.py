"""The pages. Each is one function; htmx asks for the same address and gets only the part that it shows."""
