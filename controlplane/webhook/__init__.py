"""The admission server: what the API server asks before it stores objects in the namespaces of teams."""
