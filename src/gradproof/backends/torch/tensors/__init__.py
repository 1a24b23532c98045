"""Tensors of any layout, seen as flat real coordinates, and moved in place."""
