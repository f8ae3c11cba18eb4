"""The studies, a folder each: parameters, tables, stages, sections of the report, and the study's other code.

No study imports another.
"""
