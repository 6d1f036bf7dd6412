"""Training on several devices: the same losses, and the weights a device holds."""
