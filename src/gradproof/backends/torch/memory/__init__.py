"""Memory: how a cotangent lies in it, who shares it, who writes to it."""
