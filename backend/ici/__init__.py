"""The interconnect: collectives over the torus."""
