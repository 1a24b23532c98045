"""Renderings of a Report: text, JSON, HTML, and the progress of a check. Nothing here runs user code."""
