"""Predicts the compiled step by asking Inductor: the child process of `gaptrace predict`.

execution trace -> ops (`execution_trace`) -> torch calls (`calls`) -> FX graphs (`rebuild`,
`graphs`), changed on request (`whatif`) -> Inductor's schedule (`schedule`, with `standins` where
there is no GPU) -> kernels as data (`kernels`) -> JSON with eager durations (`eager`, `result`)
and what is doubtful (`doubts`), put together in `prediction`. README.md beside this file says how
it works and where it is wrong.
"""
