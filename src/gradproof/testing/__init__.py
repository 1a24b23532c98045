"""What the pytest plugin does once a test or an option asks for it: records, patches, compares, and words failures."""
