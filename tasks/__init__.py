"""One thin module a DVC stage: parse, read, call, write."""
