"""Resources of the control plane as they cross the wire. No I/O here."""
