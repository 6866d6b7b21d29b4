def redacted(r):
    return r
