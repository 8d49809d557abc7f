"""Makes what is follow what should be: state machines as tables, and reconcilers that can be killed anywhere."""
