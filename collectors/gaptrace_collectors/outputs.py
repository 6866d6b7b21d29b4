"""Whether the modes compute the same thing: logits of the first decode steps, before sampling."""

from __future__ import annotations

import math
import os
from typing import Any

import torch

from gaptrace_collectors.modes import COMPILED, COMPILED_GRAPH, EAGER, GRAPH, REDUCE_OVERHEAD, Mode

# Relative L2 distance of whole logit vectors. bf16 keeps 8 bits: reordered sums through many
# layers differ by about a percent; a stale input differs by tens of percent.
TOLERANCE = {"float64": 1e-6, "float32": 1e-3, "float16": 3e-2, "bfloat16": 6e-2}
# Deep random models amplify that noise; the same most likely token out of tens of thousands, at
# every step, still says that the same thing was computed.
SAME_TOKEN_FACTOR = 5
# A captured step runs the kernels of the step it was captured from: every capture seen on an H200
# was bit-equal. This share of the tolerance leaves room for kernels that sum in changing order.
SAME_KERNELS_SHARE = 0.25
FED = "from step"


class Outputs:
    """Keeps the logits of early steps, then saves them as the reference or compares with it."""

    def __init__(self, scratch: str, mode: Mode, repeat: int) -> None:
        self._scratch = scratch
        self._mode = mode
        self._repeat = repeat
        self._logits: dict[int, torch.Tensor] = {}
        self._tokens: dict[int, torch.Tensor] = {}
        self._dtype = "float32"
        self._why_not = ""

    def note(self, step: int, out: Any, tokens: torch.Tensor | None) -> None:
        """Keep what decode step number `step` returned, and the tokens it was fed."""
        logits = logits_of(out)
        if logits is None:
            self._why_not = "the step returns no tensor of logits"
            return
        self._dtype = str(logits.dtype).removeprefix("torch.")
        self._logits[step] = logits.detach().to("cpu", torch.float32).clone()
        if tokens is not None and not tokens.is_floating_point():
            self._tokens[step] = tokens.detach().to("cpu").clone()

    def verdict(self, first_counted: int) -> dict[str, Any]:
        """The `outputs` section of run.json: a captured mode is compared with the one it captures,
        which runs the same kernels, and must be nearly equal; others with eager/1, where that says
        nothing with compiled/1.

        Only steps from `first_counted` on are evidence (before it a captured mode still ran
        eagerly). Comparison ends at the first step that was fed other tokens, because from there
        on the modes do not compute the same thing even if both are right.
        """
        if not self._logits:
            return _not_compared(self._why_not or "no decode step returned")
        if self._repeat == 1 and self._mode in (EAGER, COMPILED):
            kept = {"logits": self._logits, "tokens": self._tokens}
            torch.save(kept, self._reference(self._mode.id))
        if self._mode is EAGER and self._repeat == 1:
            return _section("reference", steps=len(self._logits))
        own = _CAPTURES.get(self._mode)
        if own is not None:
            verdict = self._against(own.id, first_counted, same_kernels=True)
            if verdict["status"] != "not compared" or own is EAGER:
                return verdict
        verdict = self._against(EAGER.id, first_counted)
        compiled = self._mode.compiles and self._mode is not COMPILED
        if compiled and verdict["status"] in ("not compared", "different"):
            second = self._against(COMPILED.id, first_counted)
            if second["status"] != "not compared":
                return second
        return verdict

    def _reference(self, mode: str) -> str:
        return os.path.join(self._scratch, f"outputs-{mode}.pt")

    def _against(
        self, mode: str, first_counted: int, *, same_kernels: bool = False
    ) -> dict[str, Any]:
        path = self._reference(mode)
        if not os.path.exists(path):
            return _not_compared(f"no {mode} run in this recording to compare with")
        kept = torch.load(path, weights_only=True)
        verdict = self._compare(
            kept["logits"], kept["tokens"], first_counted, same_kernels=same_kernels
        )
        if verdict["status"] != "not compared":
            verdict["against"] = f"{mode}/1"
        return verdict

    def _compare(
        self,
        logits: dict[int, torch.Tensor],
        tokens: dict[int, torch.Tensor],
        first_counted: int,
        *,
        same_kernels: bool,
    ) -> dict[str, Any]:
        largest = relative = 0.0
        per_step: list[float | None] = []
        compared, same_token, why = 0, True, ""
        for step in sorted(self._logits):
            mine, other = self._logits[step], logits.get(step)
            if other is None or other.shape != mine.shape:
                why = f"step {step} has no counterpart of the same shape"
                break
            fed, fed_before = self._tokens.get(step), tokens.get(step)
            if fed is not None and fed_before is not None and not torch.equal(fed, fed_before):
                why = f"{FED} {step} on the modes were fed different tokens"
                break
            agree = bool(torch.equal(mine.argmax(-1), other.argmax(-1)))
            if not bool(torch.isfinite(mine).any() or torch.isfinite(other).any()):
                why = f"the logits of step {step} hold no finite number"
                break
            if step >= first_counted:
                compared += 1
                same_token = same_token and agree
                most, distance = _distance(mine, other)
                largest, relative = max(largest, most), max(relative, distance)
                per_step.append(distance if math.isfinite(distance) else None)
            if not agree and fed is None:
                why = f"the most likely token differs after step {step}"
                break
        if compared == 0:
            return _not_compared(why or "no step to compare")
        tolerance = TOLERANCE.get(self._dtype, 1e-3)
        if not math.isfinite(relative):
            why = why or "the logits are not finite in the same places"
        if same_kernels:
            tolerance = allowed = tolerance * SAME_KERNELS_SHARE
        else:
            allowed = tolerance * (SAME_TOKEN_FACTOR if same_token else 1)
        status = "equal" if largest == 0.0 else "close" if relative <= allowed else "different"
        if status == "equal" and why.startswith(FED):
            # Equal logits and yet another token: it was not chosen by what was compared.
            return _not_compared(f"{compared} steps were equal, but {why}")
        section = _section(status, steps=compared, reason=why or None)
        return section | {
            "max_abs": largest if math.isfinite(largest) else None,
            "rel_l2": relative if math.isfinite(relative) else None,
            "argmax_equal": same_token,
            "tolerance": tolerance,
            "per_step": per_step,
        }


# What each captured mode replays the very kernels of.
_CAPTURES = {GRAPH: EAGER, COMPILED_GRAPH: COMPILED, REDUCE_OVERHEAD: COMPILED}


def _distance(mine: torch.Tensor, other: torch.Tensor) -> tuple[float, float]:
    """Largest difference, and relative L2 distance, of two logit tensors where they are finite.

    Both infinite where they are not finite in the same places, or not in the same way.
    """
    finite = torch.isfinite(mine)
    rest, rest_other = mine[~finite], other[~finite]
    same = torch.equal(finite, torch.isfinite(other))
    if not same or not torch.equal(torch.nan_to_num(rest), torch.nan_to_num(rest_other)):
        return math.inf, math.inf
    apart = mine[finite] - other[finite]
    size = float(other[finite].norm()) or 1.0
    return float(apart.abs().max()), float(apart.norm()) / size


def _section(status: str, steps: int, reason: str | None = None) -> dict[str, Any]:
    return {
        "status": status,
        "reason": reason,
        "against": None,
        "steps_compared": steps,
        "max_abs": None,
        "rel_l2": None,
        "argmax_equal": None,
        "tolerance": None,
        "per_step": None,
    }


def _not_compared(reason: str) -> dict[str, Any]:
    return _section("not compared", 0, reason)


def logits_of(out: Any) -> torch.Tensor | None:
    """The logits of the last position in whatever a model or step returned, or None.

    Where nothing is called logits: the first tensor that has a value per token, before any that
    has one value alone, such as a loss.
    """
    if isinstance(out, dict):
        out = out["logits"] if "logits" in out else list(out.values())
    elif hasattr(out, "logits"):
        out = out.logits
    if isinstance(out, (tuple, list)):
        tensors = [item for item in out if isinstance(item, torch.Tensor)]
        tensors = [item for item in tensors if item.is_floating_point()]
        out = next((item for item in tensors if item.numel() > 1), next(iter(tensors), None))
    if not isinstance(out, torch.Tensor) or not out.is_floating_point() or out.dim() == 0:
        return None
    return out[:, -1] if out.dim() == 3 else out
