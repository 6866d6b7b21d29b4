"""The compiled-step oracle behind `python -m gaptrace_collectors.inductor`.

execution trace -> ops (`execution_trace`) -> torch calls (`calls`) -> FX graphs (`rebuild`,
`graphs`), changed on request (`whatif`) -> Inductor's schedule (`schedule`, with `standins` where
there is no GPU) -> kernels as data (`kernels`) -> JSON with eager durations (`kineto`, `result`)
and what is doubtful (`doubts`). README.md beside this file says how it works and where it is wrong.
"""
