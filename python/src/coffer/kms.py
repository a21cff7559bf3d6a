"""PyArrow's Parquet encryption under Coffer's masters.

    factory = coffer.kms.crypto_factory(config_dir="~/.coffer", passphrase_file="passphrase")
    config = pe.EncryptionConfiguration(
        footer_key="main", uniform_encryption=True, data_key_length_bits=256
    )
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    pq.write_table(table, "sales/part-0.parquet", encryption_properties=properties)

Names of keys are names of masters, as `coffer keys list` shows them. `coffer adopt sales` then
makes a sealed table of such files, as they are. With the same factory PyArrow reads the files of
sealed tables of this config directory, and those that Spark wrote under its masters.

Wrapping and unwrapping is done by a process of its own (`coffer kms`), which has the keyring.
PyArrow itself gets the data keys of the files that it reads and writes, and encrypts and decrypts
with them: use it where rows may be seen in the clear.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import threading
import weakref
from pathlib import Path

import pyarrow.parquet.encryption as pe

from coffer._find import find_binary
from coffer.config_dir import renamed


class KmsError(RuntimeError):
    """A key cannot be wrapped or unwrapped; the message says why, and has a hint."""


class CofferKmsClient(pe.KmsClient):
    """Has `coffer kms` wrap and unwrap each key. What PyArrow calls a master key is a master of the
    config directory."""

    def __init__(self, program: KmsProgram) -> None:
        super().__init__()
        self._program = program

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> str:
        request = {"master": master_key_identifier, "wrap": base64.b64encode(key_bytes).decode()}
        return self._program.ask(request, "wrapped")

    def unwrap_key(self, wrapped_key: str | bytes, master_key_identifier: str) -> bytes:
        wrapped = wrapped_key.decode() if isinstance(wrapped_key, bytes) else wrapped_key
        request = {"master": master_key_identifier, "unwrap": wrapped}
        return base64.b64decode(self._program.ask(request, "key"), validate=True)


class KmsProgram:
    """One `coffer kms` process, started when it is first needed, and ended with this object.

    A process that was forked (as `multiprocessing` does) starts one of its own: two that share
    pipes would read each other's answers, and one's file would get the other's wrapped key.

    The passphrase comes from `passphrase_file`, else from the environment variable
    `COFFER_PASSPHRASE`: nobody is asked. `home` is the old name of `config_dir`.
    """

    def __init__(
        self,
        config_dir: str | os.PathLike[str] | None = None,
        passphrase_file: str | os.PathLike[str] | None = None,
        *,
        home: str | os.PathLike[str] | None = None,
    ) -> None:
        config_dir = renamed(config_dir, home)
        self._command = [str(find_binary("coffer")), "kms"]
        if config_dir is not None:
            self._command += ["--config-dir", str(Path(config_dir).expanduser())]
        if passphrase_file is not None:
            self._command += ["--passphrase-file", str(Path(passphrase_file).expanduser())]
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        _programs.add(self)

    def _forked(self) -> None:
        # The thread that may have held the lock is not in this process.
        self._lock = threading.Lock()
        inherited, self._process = self._process, None
        if inherited is not None:
            # Else the program would not see the end of its input when its own process closes it.
            for pipe in (inherited.stdin, inherited.stdout, inherited.stderr):
                if pipe is not None:
                    pipe.close()

    def ask(self, request: dict[str, str], answer: str) -> str:
        """The field `answer` of what the program answers. Raises KmsError."""
        with self._lock:
            if self._process is None:
                # Without buffers: there is nothing in them that a forked process could write or
                # read a second time.
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    bufsize=0,
                )
                weakref.finalize(self, _end, self._process, os.getpid())
            line = _exchange(self._process, json.dumps(request))
            if not line.endswith(b"\n"):
                said = _end(self._process, os.getpid())
                self._process = None
                raise KmsError(f"coffer kms ended before it answered:\n{said}")
        fields = json.loads(line)
        if answer not in fields:
            hint = f"\nhint: {fields['hint']}" if fields.get("hint") else ""
            raise KmsError(f"{fields.get('error', 'coffer kms answered what is no answer')}{hint}")
        return fields[answer]


_programs: weakref.WeakSet[KmsProgram] = weakref.WeakSet()


def _forked() -> None:
    for program in list(_programs):
        program._forked()


os.register_at_fork(after_in_child=_forked)


def crypto_factory(
    config_dir: str | os.PathLike[str] | None = None,
    passphrase_file: str | os.PathLike[str] | None = None,
    *,
    home: str | os.PathLike[str] | None = None,
) -> pe.CryptoFactory:
    """PyArrow's factory of encryption and decryption properties, over the masters and tables of a
    config directory. `home` is the old name of `config_dir`."""
    program = KmsProgram(renamed(config_dir, home), passphrase_file)
    return pe.CryptoFactory(lambda _config: CofferKmsClient(program))


def _exchange(process: subprocess.Popen[bytes], line: str) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise KmsError("coffer kms has no pipes")
    left = memoryview(f"{line}\n".encode())
    answer = b""
    try:
        while left:
            left = left[process.stdin.write(left) :]
        while not answer.endswith(b"\n"):
            part = process.stdout.read(1 << 16)
            if not part:
                break
            answer += part
    except BrokenPipeError:
        return b""
    return answer


def _end(process: subprocess.Popen[bytes], owner: int) -> str:
    """Ends the program by the end of its input, and gives what it said. One that was inherited is
    left alone."""
    if os.getpid() != owner:
        return ""
    try:
        return process.communicate(timeout=10)[1].decode(errors="replace").strip()
    except (BrokenPipeError, ValueError):
        return ""
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[1].decode(errors="replace").strip()
