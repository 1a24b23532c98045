"""One function, every way it is run: the ways as data, and how the answer of each is compared with eager's."""
