"""How to call the hand-written Functions of released packages: one module for each package, its recipes as data."""
