"""The commands with their one line of help: enough for `headgate --help`, which imports none of them."""

from __future__ import annotations

GROUPS: dict[str, dict[str, str]] = {
    "start": {
        "up": "start server, workers and load sampler on this machine",
        "worker": "run a worker for a server",
        "pool": "report this machine's load and GPUs to a server, as a pool",
    },
    "jobs": {
        "submit": "submit a command or many jobs, print the id",
        "run": "submit a command, show its output, exit with its code",
        "jobs": "list jobs",
        "job": "show one job: state, result, history, output",
        "explain": "say why a job does not run",
        "cancel": "end jobs that have not ended",
        "retry": "submit ended jobs again",
        "leases": "list live leases",
    },
    "machines": {
        "top": "live view of load, queue and workers",
        "workers": "list, drain or remove workers",
        "pools": "list pools of machines",
        "load": "show the busy rating and its signals",
    },
    "rules": {
        "policy": "write, check, deploy and roll back policies",
        "tenants": "list and set quotas and weights",
        "sim": "simulate and compare policies, make and convert workloads",
    },
    "upkeep": {
        "db": "back up, restore, verify, migrate, compact the database",
        "token": "create, list, revoke access tokens",
        "config": "show and check the configuration",
        "bench": "measure a running server",
        "completion": "print completion for a shell",
    },
}

COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}
