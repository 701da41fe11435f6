"""Files of a run folder: records, readers, writers and units of their numbers. Imports no other dpeer package."""
