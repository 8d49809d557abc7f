"""The device link: what a driver and a slice runtime say to each other, and how it travels."""
