"""What demo, tests and benchmarks share: data, queries, exact comparison of answers, clusters to run them on.

Not part of the API; needs the development requirements (`python/requirements.txt`).
"""
