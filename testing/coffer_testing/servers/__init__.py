"""Real key servers on loopback, for tests and benchmarks: what the masters outside of the keyring
talk to.

Each finds or fetches its program, takes a free port, and stops the process that it started, by its
id. What is missing and cannot be fetched is said with the command that installs it.
"""

from __future__ import annotations

from coffer_testing.servers.aws_kms import AwsKms
from coffer_testing.servers.hadoop_kms import HadoopKms
from coffer_testing.servers.relay import Relay
from coffer_testing.servers.softhsm import SoftHsm

__all__ = ["AwsKms", "HadoopKms", "Relay", "SoftHsm"]
