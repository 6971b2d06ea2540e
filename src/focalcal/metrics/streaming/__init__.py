"""Streaming: metrics of data that comes in batches, in parts on several machines, or in files larger than memory."""
