"""The slice runtime: the process in which a slice's chips live."""
