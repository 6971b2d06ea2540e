"""Base layer under every package: files, suggestions, progress, tables, chunks; nothing about calibration."""
