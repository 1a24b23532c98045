"""What a check found, as values: findings, certificate, pairs, report. Nothing here runs user code."""
