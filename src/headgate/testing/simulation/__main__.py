"""`python -m headgate.testing.simulation --seeds 100`: run seeds 1 to 100; a failing one is printed with its trace."""

from __future__ import annotations

import argparse
import sys

from headgate.testing.simulation.run import STEPS, Report, simulate


def main(arguments: list[str] | None = None) -> int:
    """Run the seeds asked for; 1 if any failed."""
    asked = _parser().parse_args(arguments)
    seeds = [asked.seed] if asked.seed is not None else range(asked.first, asked.first + asked.seeds)
    jobs = answers = restarts = 0
    failed: list[int] = []
    for seed in seeds:
        report = simulate(seed, asked.steps)
        jobs, answers, restarts = jobs + report.jobs, answers + report.answers, restarts + report.restarts
        if report.problem is not None:
            failed.append(seed)
        if asked.verbose or report.problem is not None:
            _show(report, asked.lines)
    _say(f"{len(seeds)} seeds, {jobs} jobs, {answers} acknowledgements, {restarts} starts of the engine")
    _say(f"failed: {', '.join(map(str, failed))}" if failed else "all hold")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headgate.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=1, help="the first of them")
    parser.add_argument("--seed", type=int, help="run this one seed only")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of chaos before the faults stop")
    parser.add_argument("--lines", type=int, default=60, help="how much of a failing trace to print")
    parser.add_argument("--verbose", action="store_true", help="say what became of every seed")
    return parser


def _show(report: Report, lines: int) -> None:
    if report.problem is not None:
        for line in report.trace[max(0, len(report.trace) - lines) :]:
            _say(line)
    _say(
        f"seed {report.seed}: {report.problem or 'holds'} ({report.steps} steps, {report.jobs} jobs, "
        f"{report.commits} commits, {report.restarts} starts, trace {report.fingerprint})"
    )


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    sys.exit(main())
