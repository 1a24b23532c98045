"""The mathematics of a check: NumPy only, no framework, no dtype but float64."""
