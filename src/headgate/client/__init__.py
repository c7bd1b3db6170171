"""The SDK: jobs, handles and leases, written once as coroutines and offered with and without `await`."""
