"""The simulator: any policy on any workload, before it goes live, on the very core that runs live.

workload = read_workload("KTH-SP2-1996-2.1-cln.swf.gz")
print(summary(run(workload, "easy-backfill")))
print(comparison(compare(workload, ["platform", "my.yaml"])))
"""

from headgate.sim.cluster import Cluster, Delays, Faults, Outage, cluster_for, gpu_pool, machine, sim_settings, workers
from headgate.sim.compare import Comparison, compare
from headgate.sim.forking import MOST_JOBS, Fork, fork_of, with_recent
from headgate.sim.future import Future, future
from headgate.sim.html import compare_report, write_report
from headgate.sim.orders import what_if
from headgate.sim.outcome import Outcome
from headgate.sim.outcome_text import outcome_text
from headgate.sim.policies import policy_names
from headgate.sim.results import Results, write_csv, write_parquet
from headgate.sim.running import run
from headgate.sim.text import comparison, summary
from headgate.sim.whatif import Changes, scaled, with_load, without_pool
from headgate.sim.workloads import read_workload
from headgate.sim.workloads.generate import GENERATORS, Shape, generate
from headgate.sim.workloads.history import read_history
from headgate.sim.workloads.jsonl import write_jsonl
from headgate.sim.workloads.model import SimJob, Workload, WorkloadError
from headgate.sim.world import World

__all__ = [
    "GENERATORS",
    "MOST_JOBS",
    "Changes",
    "Cluster",
    "Comparison",
    "Delays",
    "Faults",
    "Fork",
    "Future",
    "Outage",
    "Outcome",
    "Results",
    "Shape",
    "SimJob",
    "Workload",
    "WorkloadError",
    "World",
    "cluster_for",
    "compare",
    "compare_report",
    "comparison",
    "fork_of",
    "future",
    "generate",
    "gpu_pool",
    "machine",
    "outcome_text",
    "policy_names",
    "read_history",
    "read_workload",
    "run",
    "scaled",
    "sim_settings",
    "summary",
    "what_if",
    "with_load",
    "with_recent",
    "without_pool",
    "workers",
    "write_csv",
    "write_jsonl",
    "write_parquet",
    "write_report",
]
