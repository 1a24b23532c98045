"""What a check found, as values: findings, certificate, pairs, diagnosis, report. Nothing here runs user code."""
