"""The ground that every package stands on: files, suggestions, progress, tables, chunks; nothing of calibration."""
