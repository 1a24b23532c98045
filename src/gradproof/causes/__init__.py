"""From a wrong Jacobian to its cause: evidence is gathered, and only a cause that it proves is named."""
