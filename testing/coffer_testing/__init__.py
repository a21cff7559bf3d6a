"""What demo, tests and benchmarks share: data, queries, exact comparison of answers, clusters to
run them on.

No part of what is installed; needs the development requirements (`testing/requirements.txt`).
"""
