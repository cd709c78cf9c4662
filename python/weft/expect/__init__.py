"""What a right result is: inputs, references, expected values, and how errors are held."""
