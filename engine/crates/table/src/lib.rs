//! Sealed tables: Parquet Modular Encryption, manifest, register
