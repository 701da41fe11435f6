"""What a run leaves: records, the files of a run folder, and how their numbers are written. Knows no other room."""
