//! Keyring, policy, evidence and key release
