"""A call and its derivatives in coordinates: evaluation, reverse mode, forward mode, batches, second order."""
