"""NumPy functions, whose derivatives are functions of their own: gradients, Jacobians, Hessians, products with them."""

from gradproof.backends.numpy.session import FIRST, SECOND, session

__all__ = ["FIRST", "SECOND", "session"]
