"""One module a driver: what a network of its kind takes, and the devices that it is made of."""
