//! Spark's RPC: who may take part, and what is seen and changed on the way.

use super::{
    Check, Posture,
    Severity::{High, Low, Medium},
    found,
};

const GCM: &str = "AES/GCM/NoPadding";

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "rpc-authentication",
        severity: High,
        why: "whoever reaches the driver's port can register as an executor, take tasks, fetch \
            the driver's blocks and send it \
            objects to deserialise",
        set: "spark.authenticate true; on a standalone cluster also spark.authenticate.secret, \
            for master and workers too",
        find: |p| {
            found(
                p.has_executors() && !p.on("spark.authenticate", false),
                "Spark's processes do not authenticate each other",
            )
        },
    },
    Check {
        id: "rpc-encryption",
        severity: Medium,
        why: "sealed bytes stay sealed, but the rest of Spark's traffic (settings, jars, classes, \
            its own messages) is read and \
            changed on the way",
        set: "spark.network.crypto.enabled true with spark.network.crypto.cipher \
            AES/GCM/NoPadding, or spark.ssl.rpc.enabled true",
        find: |p| {
            let authenticated = p.on("spark.authenticate", false);
            let encrypted = tls(p) || (authenticated && (aes(p) || sasl(p)));
            found(
                p.has_executors() && !encrypted,
                "Spark's RPC is not encrypted",
            )
        },
    },
    Check {
        id: "rpc-cipher",
        severity: High,
        why: "the cipher does not authenticate: whoever is on the path flips bits of Spark's \
            messages and of the code it ships, \
            unnoticed (CVE-2025-55039)",
        set: "spark.network.crypto.cipher AES/GCM/NoPadding",
        find: |p| {
            let cipher = p.get("spark.network.crypto.cipher");
            let weak = !cipher.is_some_and(|cipher| cipher.eq_ignore_ascii_case(GCM));
            let cipher = cipher.unwrap_or("AES/CTR/NoPadding, the default");
            found(
                p.has_executors() && aes(p) && !tls(p) && weak,
                format!("RPC is encrypted with {cipher}"),
            )
        },
    },
    Check {
        id: "rpc-key-exchange",
        severity: Low,
        why: "version 1 of Spark's key exchange takes the raw secret of X25519 for its keys",
        set: "spark.network.crypto.authEngineVersion 2, on all nodes and shuffle services",
        find: |p| {
            let version = p
                .get("spark.network.crypto.authEngineVersion")
                .unwrap_or("1");
            found(
                p.has_executors() && aes(p) && !tls(p) && version != "2",
                format!("RPC uses version {version} of Spark's key exchange"),
            )
        },
    },
    Check {
        id: "rpc-sasl-fallback",
        severity: Medium,
        why: "a peer that fails the key exchange is let in by SASL (DIGEST-MD5), and then nothing \
            is encrypted",
        set: "spark.network.crypto.saslFallback false",
        find: |p| {
            found(
                p.has_executors()
                    && aes(p)
                    && !tls(p)
                    && p.on("spark.network.crypto.saslFallback", true),
                "a connection may fall back from AES to SASL",
            )
        },
    },
    Check {
        id: "rpc-sasl",
        severity: Medium,
        why: "SASL's DIGEST-MD5 encrypts with ciphers that are long given up",
        set: "spark.network.crypto.enabled true with spark.network.crypto.cipher \
            AES/GCM/NoPadding, or spark.ssl.rpc.enabled true",
        find: |p| {
            found(
                p.has_executors() && sasl(p) && !aes(p) && !tls(p),
                "RPC is encrypted by SASL",
            )
        },
    },
];

fn aes(posture: &Posture) -> bool {
    posture.on("spark.network.crypto.enabled", false)
}

fn tls(posture: &Posture) -> bool {
    posture.on("spark.ssl.rpc.enabled", false)
}

fn sasl(posture: &Posture) -> bool {
    posture.on("spark.authenticate.enableSaslEncryption", false)
}
