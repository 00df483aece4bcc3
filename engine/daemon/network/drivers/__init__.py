"""The network drivers, one module each: the options that a network of the driver takes, and the device it needs."""
