"""Bytes to a Trace: Kineto traces of any year and any vendor, repaired if need be; run folders."""
