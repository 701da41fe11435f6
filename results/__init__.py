"""Files of a run folder: records, readers, writers and units of their numbers; imports no other dpeer package."""
