"""What one run of a model is made of: its operations, their gradients in the model, and what each of them explains."""
