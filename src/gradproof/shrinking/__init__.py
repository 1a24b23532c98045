"""From a call with a wrong derivative to the smallest one with the same finding, and to a test of it."""
