"""Headgate beside other job queues, on the same work in the same run: `python -m bench.peers --help`.

Each queue is one small module with a `Peer`; its worker processes import the same module. Queues live in a virtual
environment of their own (`installing`), their brokers on loopback for as long as the run takes (`servers`).
"""
