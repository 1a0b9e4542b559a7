"""What validate finds. A check is one class in the file of its family, which lists its own."""
