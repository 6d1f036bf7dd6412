"""What models share: generation, embedding, quantization."""
