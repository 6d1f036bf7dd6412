"""Detection of traced or symbolic tensors."""
