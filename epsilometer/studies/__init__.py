"""The studies. A folder has a study's parameters, tables, stages, section of the report, and code of its own.

No study imports another.
"""
