"""The command `gpu`: attention, layers and models on one GPU, beside their peers."""
