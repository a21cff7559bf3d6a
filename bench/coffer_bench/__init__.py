"""Side-by-side benchmarks: plaintext Spark against Coffer, alternating, on the same machine in the
same run."""
