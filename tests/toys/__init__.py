"""Two backends that can do next to nothing: what the contract asks for, and no more."""
