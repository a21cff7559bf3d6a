//! What both ends of a connection demand: TLS 1.3, the certificate of a known authority on either
//! side, and a handshake each time, so that a certificate that ran out opens no new connection.

use std::{path::Path, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    client::Resumption,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{NoServerSessionStorage, WebPkiClientVerifier},
    version::TLS13,
};
use thiserror::Error;

/// Why certificates or keys are of no use.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file that cannot be read, or has nothing of its kind in it.
    #[error("cannot read {what} of {path}: {why}")]
    File {
        /// What is looked for in it.
        what: &'static str,
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
    /// rustls does not take them.
    #[error(transparent)]
    Tls(#[from] rustls::Error),
    /// No authority to verify clients by.
    #[error("{0}")]
    Authority(String),
}

/// The files of one side.
pub struct Files<'a> {
    /// Its certificate, and those between it and its authority (PEM).
    pub certificate: &'a Path,
    /// The certificate's key (PEM).
    pub key: &'a Path,
    /// The certificates of the authority of the other side (PEM).
    pub authority: &'a Path,
}

impl Files<'_> {
    /// Of the side that is connected to: who has no certificate of that authority is not let in.
    pub fn server(&self) -> Result<ServerConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(
            Arc::new(self.roots()?),
            Arc::clone(&provider),
        );
        let verifier = verifier
            .build()
            .map_err(|error| TlsError::Authority(error.to_string()))?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(self.chain()?, self.private_key()?)?;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// Of the side that connects.
    pub fn client(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(self.roots()?)
            .with_client_auth_cert(self.chain()?, self.private_key()?)?;
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(self.authority)? {
            roots.add(certificate)?;
        }
        Ok(roots)
    }

    fn chain(&self) -> Result<Vec<CertificateDer<'static>>, TlsError> {
        certificates(self.certificate)
    }

    fn private_key(&self) -> Result<PrivateKeyDer<'static>, TlsError> {
        PrivateKeyDer::from_pem_file(self.key)
            .map_err(|error| unreadable("the private key", self.key, &error))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |error: &dyn std::fmt::Display| unreadable("the certificates", path, error);
    let found = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(&error))?;
    match found.is_empty() {
        true => Err(failed(&"there is none")),
        false => Ok(found),
    }
}

fn unreadable(what: &'static str, path: &Path, why: &dyn std::fmt::Display) -> TlsError {
    TlsError::File {
        what,
        path: path.display().to_string(),
        why: why.to_string(),
    }
}
