"""The TPU VM: worker processes, their environment, and the executor that starts and finds them."""
