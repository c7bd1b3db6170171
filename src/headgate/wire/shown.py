"""Answers of the core in the words of the wire, for the server and for connections that need none."""

from __future__ import annotations

import msgspec

from headgate.core.explain import Explanation
from headgate.core.predict import Accuracy, Estimate
from headgate.wire import http as w


def explain_out(found: Explanation) -> w.ExplainOut:
    """Why a job waits, and until when."""
    reasons = [{**msgspec.to_builtins(reason), "detail": reason.detail()} for reason in found.reasons]
    expected = None if found.expected is None else _expected(found.expected)
    return w.ExplainOut(found.job_id, str(found.state), reasons, found.position, expected)


def _expected(estimate: Estimate) -> w.ExpectedOut:
    start, low, high = (at / 1000 for at in (estimate.start, estimate.low, estimate.high))
    return w.ExpectedOut(start, low, high, estimate.learned_from)


def predictions_out(found: Accuracy | None) -> w.PredictionsOut | None:
    """How expected starts turned out, where somebody forecasts."""
    if found is None:
        return None
    return w.PredictionsOut(found.stated, found.started, found.inside, found.before, found.after, found.share_inside)
