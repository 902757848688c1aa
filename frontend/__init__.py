"""The pages: a Django app without models."""
