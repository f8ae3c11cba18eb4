"""What is studied, a folder a study: its parameters, tables, stages, section of the report, and what only it needs.

No study imports another.
"""
