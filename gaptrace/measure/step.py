def step_ns(analysis):
    unprofiled = analysis.headline.rate.unprofiled_step_ns
    if unprofiled is not None:
        return unprofiled
    median = analysis.headline.steps["period_ns"].median
    return None if median is None else int(median)
