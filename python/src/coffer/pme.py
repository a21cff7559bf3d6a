"""Sealed files in PyArrow: a KMS client over column KEKs that `coffer keys export-keks` wrote.

    keks = load_keks("keks.json")
    table = read_file("sealed/part-….parquet", keks)

The other way round, `KmsClient` also wraps, so files that PyArrow writes under these KEKs are read
by `coffer decrypt --kek-file`. No manifest plays a part here: PyArrow checks that a file's parts
fit together, not that it is the right file.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE = 12


def load_keks(path: str | os.PathLike[str]) -> dict[str, bytes]:
    """KEKs by id from the JSON that `coffer keys export-keks` writes."""
    keks = json.loads(Path(path).read_text())["keks"]
    return {kek_id: base64.b64decode(kek, validate=True) for kek_id, kek in keks.items()}


class KmsClient(pe.KmsClient):
    """Wraps and unwraps as the PME key tools do: base64(nonce ‖ AES-GCM(KEK, key, AAD = KEK
    id))."""

    def __init__(self, keks: Mapping[str, bytes]) -> None:
        super().__init__()
        self._keks = dict(keks)

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
        nonce = os.urandom(_NONCE)
        sealed = self._kek(master_key_identifier).encrypt(
            nonce, key_bytes, master_key_identifier.encode()
        )
        return base64.b64encode(nonce + sealed).decode()

    def unwrap_key(self, wrapped_key: str | bytes, master_key_identifier: str) -> bytes:
        sealed = base64.b64decode(wrapped_key, validate=True)
        return self._kek(master_key_identifier).decrypt(
            sealed[:_NONCE], sealed[_NONCE:], master_key_identifier.encode()
        )

    def _kek(self, kek_id: str) -> AESGCM:
        if kek_id not in self._keks:
            raise KeyError(f"the key {kek_id} is not held")
        return AESGCM(self._keks[kek_id])


def crypto_factory(keks: Mapping[str, bytes]) -> pe.CryptoFactory:
    """PyArrow's factory of encryption and decryption properties, over these KEKs."""
    return pe.CryptoFactory(lambda _config: KmsClient(keks))


def read_file(
    path: str | os.PathLike[str],
    keys: Mapping[str, bytes] | pe.CryptoFactory,
    columns: list[str] | None = None,
) -> pa.Table:
    """One sealed Parquet file as an Arrow table. `keys`: KEKs of the columns read, or the factory
    of `coffer.kms`."""
    config = pe.DecryptionConfiguration(cache_lifetime=timedelta(minutes=5))
    factory = keys if isinstance(keys, pe.CryptoFactory) else crypto_factory(keys)
    properties = factory.file_decryption_properties(pe.KmsConnectionConfig(), config)
    # Pre-buffering would open columns that are not read.
    return pq.ParquetFile(path, decryption_properties=properties, pre_buffer=False).read(
        columns=columns
    )
