"""The sections of the report: one function a section, in a file with its template beside it."""
