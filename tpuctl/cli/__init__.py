"""The command line: a file a verb, and what they share to read, show and fail."""
