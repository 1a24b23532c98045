"""Functions that span several processes: the map of all ranks together as one Problem."""
