"""The studies, a folder each: parameters, tables, stages, section of the report, and code that only it needs.

No study imports another.
"""
