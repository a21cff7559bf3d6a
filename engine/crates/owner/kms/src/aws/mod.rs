//! The AWS KMS, over its JSON protocol (AWS KMS API Reference, 2014-11-01; `TrentService`), and
//! servers that speak it.
//!
//! A data key is drawn and wrapped there (`GenerateDataKey`), with whose key it is as encryption
//! context: so the KMS itself refuses to open it for another, and its own log says whose it was.
//! Automatic rotation keeps a key's ARN; an alias that leads to another key shows as another
//! version.
//!
//! Whose credentials these are, and how they sign, is the business of a program of its own,
//! `coffer-aws` ([`Question`], [`Answer`]): AWS's libraries for that bring an HTTP stack of their
//! own, which neither the client engine nor the command line links.

mod helper;
mod question;

use std::{
    collections::BTreeMap,
    sync::OnceLock,
    time::{Duration, Instant},
};

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use coffer_custody::{
    KeyContext, MasterError, MasterState,
    master::{AwsKmsUri, DataKey, DataKeys, OutsideUri, WrappedDataKey},
};
use coffer_sealing::Secret;
use helper::Helper;
pub use question::{Answer, Failure, FailureKind, MAX_LINE, Question, Unsigned, What};
use serde::Deserialize;
use serde_json::{Value, json};
use ureq::http::Request;

pub use crate::secret_text::SecretText;
use crate::{
    garbage,
    http::{self, Http, Trouble},
    in_short,
    retry::{Again, Servers},
    secret_text::STANDARD,
};

/// The secrets that stand in the environment and in the shared files, of those that a key is asked
/// with; none where they cannot be had, since then it cannot be asked either.
pub(crate) fn secrets(uri: &AwsKmsUri) -> Vec<SecretText> {
    Helper::new(uri.profile.clone())
        .secrets(uri.limits.timeout)
        .unwrap_or_default()
}

/// As the KMS calls itself in signatures.
const SERVICE: &str = "kms";

/// A key of the AWS KMS.
pub(crate) struct AwsKms {
    uri: AwsKmsUri,
    of: String,
    helper: Helper,
    reached: OnceLock<Reached>,
}

/// What is known once it is used.
struct Reached {
    region: String,
    servers: Servers,
    http: Http,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Generated {
    ciphertext_blob: String,
    key_id: String,
    plaintext: SecretText,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Decrypted {
    plaintext: SecretText,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ReEncrypted {
    ciphertext_blob: String,
    key_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Described {
    key_metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Metadata {
    arn: String,
    enabled: bool,
    /// Seconds since 1970.
    creation_date: Option<f64>,
}

#[derive(Deserialize, Default)]
struct Refusal {
    #[serde(rename = "__type", default)]
    kind: String,
    #[serde(alias = "Message", default)]
    message: String,
}

impl AwsKms {
    pub(crate) fn new(uri: AwsKmsUri) -> Self {
        Self {
            of: OutsideUri::AwsKms(uri.clone()).to_string(),
            helper: Helper::new(uri.profile.clone()),
            uri,
            reached: OnceLock::new(),
        }
    }

    fn failed(&self, failure: Failure) -> MasterError {
        let reason = in_short(&failure.message);
        match failure.kind {
            FailureKind::Settings => self.settings(reason),
            FailureKind::Away => MasterError::Unreachable {
                of: self.of.clone(),
                reason,
            },
        }
    }

    fn settings(&self, reason: String) -> MasterError {
        MasterError::Settings {
            of: self.of.clone(),
            reason,
        }
    }

    fn reached(&self) -> Result<&Reached, MasterError> {
        if let Some(reached) = self.reached.get() {
            return Ok(reached);
        }
        let by_arn = || {
            self.uri
                .key
                .strip_prefix("arn:")
                .and_then(|arn| arn.split(':').nth(2))
        };
        let named = self.uri.region.as_deref().or_else(by_arn);
        let region = match named {
            Some(region) => Some(region.to_owned()),
            None => self
                .helper
                .region(self.uri.limits.timeout)
                .map_err(|failure| self.failed(failure))?,
        };
        let plain = |region: &String| {
            region
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '-')
        };
        let region = region
            .filter(plain)
            .ok_or_else(|| self.settings("no region is known: add region=… to its URI".into()))?;
        let endpoint = self.uri.endpoint.clone().unwrap_or_else(|| {
            let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
            format!("https://kms.{region}.amazonaws.com{suffix}")
        });
        let endpoints = vec![endpoint];
        let reached = Reached {
            http: Http::new(&endpoints, &self.uri.plain_http, self.uri.ca.as_deref())
                .map_err(|reason| self.settings(reason))?,
            servers: Servers::new(self.of.clone(), endpoints, self.uri.limits.timeout),
            region,
        };
        Ok(self.reached.get_or_init(|| reached))
    }

    /// One operation. `version`: the key that is meant, where it is not the policy's.
    fn ask(
        &self,
        again: Again,
        operation: &str,
        body: &Value,
        context: Option<&KeyContext>,
        version: Option<&str>,
    ) -> Result<http::Answer, MasterError> {
        let reached = self.reached()?;
        let body = body.to_string().into_bytes();
        let answer = reached.servers.ask(again, |server, within| {
            let end = Instant::now() + within;
            let request = self.signed(reached, server, operation, &body, within)?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Trouble::Unsent("no credentials in time".to_owned()));
            }
            let answer = reached.http.exchange(request, left)?;
            // Its words for *later*.
            match refusal(&answer)
                .as_ref()
                .map(|refusal| refusal.kind.as_str())
            {
                Some(
                    kind @ ("ThrottlingException"
                    | "KMSInternalException"
                    | "DependencyTimeoutException"
                    | "KeyUnavailableException"),
                ) => Err(Trouble::Away(kind.to_owned())),
                _ => Ok(answer),
            }
        })?;
        match answer.status {
            200 => Ok(answer),
            status => Err(match refusal(&answer) {
                Some(refusal) => self.refused(&refusal, context, version),
                // In words of their own, as gateways refuse.
                None if matches!(status, 401 | 403) => {
                    self.denied(format!("status {status}: {}", answer.message()))
                }
                None => garbage(&self.of, format!("status {status}, and no reason")),
            }),
        }
    }

    /// A request as it is sent.
    fn signed(
        &self,
        reached: &Reached,
        server: &str,
        operation: &str,
        body: &[u8],
        within: Duration,
    ) -> Result<Request<Vec<u8>>, Trouble> {
        let url = format!("{server}/");
        let host = server
            .split_once("://")
            .and_then(|(_, rest)| rest.split('/').next());
        let headers = [
            ("content-type", "application/x-amz-json-1.1".to_owned()),
            ("host", host.unwrap_or_default().to_owned()),
            ("x-amz-target", format!("TrentService.{operation}")),
        ];
        let unsigned = Unsigned {
            service: SERVICE.to_owned(),
            region: reached.region.clone(),
            method: "POST".to_owned(),
            url: url.clone(),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
            digest: hex::encode(digest(&SHA256, body)),
        };
        let signature = self.helper.sign(unsigned, within).map_err(|failure| {
            let message = in_short(&failure.message);
            match failure.kind {
                FailureKind::Settings => Trouble::Settings(message),
                FailureKind::Away => Trouble::Unsent(message),
            }
        })?;
        let mut request = Request::post(url);
        for (name, value) in &headers {
            request = request.header(*name, value);
        }
        for (name, value) in &signature {
            request = request.header(*name, value.expose());
        }
        request
            .body(body.to_vec())
            .map_err(|error| Trouble::Garbage(error.to_string()))
    }

    fn refused(
        &self,
        refusal: &Refusal,
        context: Option<&KeyContext>,
        version: Option<&str>,
    ) -> MasterError {
        let (of, reason) = (
            self.of.clone(),
            format!("{}: {}", refusal.kind, refusal.message),
        );
        match (refusal.kind.as_str(), context) {
            ("NotFoundException", _) => match version {
                Some(version) => MasterError::VersionGone {
                    of,
                    version: version.to_owned(),
                },
                None => MasterError::NoSuchKey {
                    of,
                    key: self.uri.key.clone(),
                },
            },
            ("DisabledException" | "KMSInvalidStateException", _) => {
                MasterError::Disabled { of, reason }
            }
            ("InvalidCiphertextException" | "IncorrectKeyException", Some(context)) => {
                MasterError::Altered(*context)
            }
            ("AlreadyExistsException", _) => MasterError::Exists { of },
            (
                "AccessDeniedException"
                | "UnrecognizedClientException"
                | "InvalidSignatureException"
                | "SignatureDoesNotMatch"
                | "IncompleteSignature"
                | "MissingAuthenticationToken"
                | "MissingAuthenticationTokenException"
                | "ExpiredTokenException"
                | "InvalidClientTokenId",
                _,
            ) => self.denied(reason),
            ("UnsupportedOperationException", _) => MasterError::Unsupported {
                what: "asked that",
                of,
            },
            ("ValidationException" | "InvalidArnException" | "InvalidAliasNameException", _) => {
                MasterError::Settings { of, reason }
            }
            _ => garbage(&of, reason),
        }
    }

    /// The next call asks with new credentials, if there are any.
    fn denied(&self, reason: String) -> MasterError {
        self.helper.forget();
        MasterError::Denied {
            of: self.of.clone(),
            reason,
        }
    }

    fn parse<'a, T: Deserialize<'a>>(&self, answer: &'a http::Answer) -> Result<T, MasterError> {
        serde_json::from_slice(&answer.body)
            .map_err(|error| garbage(&self.of, format!("its JSON: {error}")))
    }

    fn secret(&self, text: &SecretText) -> Result<Secret<32>, MasterError> {
        text.decode(&STANDARD)
            .and_then(|bytes| Secret::from_slice(&bytes).ok())
            .ok_or_else(|| garbage(&self.of, "a data key that is none"))
    }

    fn wrapped(&self, version: String, blob: &str) -> Result<WrappedDataKey, MasterError> {
        match STANDARD.decode(blob) {
            Ok(bytes) if !bytes.is_empty() && !version.is_empty() => {
                Ok(WrappedDataKey { version, bytes })
            }
            _ => Err(garbage(&self.of, "a wrapped data key that is none")),
        }
    }
}

impl DataKeys for AwsKms {
    fn describe(&self) -> String {
        self.of.clone()
    }

    fn generate(&self, context: &KeyContext) -> Result<DataKey, MasterError> {
        let body = json!({ "KeyId": self.uri.key, "KeySpec": "AES_256",
            "EncryptionContext": encryption(context) });
        let answer = self.ask(Again::Yes, "GenerateDataKey", &body, Some(context), None)?;
        let made: Generated = self.parse(&answer)?;
        Ok(DataKey {
            secret: self.secret(&made.plaintext)?,
            wrapped: self.wrapped(made.key_id, &made.ciphertext_blob)?,
        })
    }

    fn open(
        &self,
        context: &KeyContext,
        wrapped: &WrappedDataKey,
    ) -> Result<Secret<32>, MasterError> {
        let body = json!({
            "KeyId": wrapped.version,
            "CiphertextBlob": STANDARD.encode(&wrapped.bytes),
            "EncryptionContext": encryption(context),
        });
        let answer = self.ask(
            Again::Yes,
            "Decrypt",
            &body,
            Some(context),
            Some(&wrapped.version),
        )?;
        let opened: Decrypted = self.parse(&answer)?;
        self.secret(&opened.plaintext)
    }

    fn renew(
        &self,
        context: &KeyContext,
        wrapped: &WrappedDataKey,
    ) -> Result<Option<WrappedDataKey>, MasterError> {
        let body = json!({
            "SourceKeyId": wrapped.version,
            "CiphertextBlob": STANDARD.encode(&wrapped.bytes),
            "SourceEncryptionContext": encryption(context),
            "DestinationKeyId": self.uri.key,
            "DestinationEncryptionContext": encryption(context),
        });
        let answer = self.ask(
            Again::Yes,
            "ReEncrypt",
            &body,
            Some(context),
            Some(&wrapped.version),
        )?;
        let renewed: ReEncrypted = self.parse(&answer)?;
        self.wrapped(renewed.key_id, &renewed.ciphertext_blob)
            .map(Some)
    }

    fn state(&self) -> Result<MasterState, MasterError> {
        let answer = self.ask(
            Again::Yes,
            "DescribeKey",
            &json!({ "KeyId": self.uri.key }),
            None,
            None,
        )?;
        let Described { key_metadata: key } = self.parse(&answer)?;
        // Whole seconds; what does not fit is no time.
        let created = key
            .creation_date
            .filter(|seconds| (0.0..4e9).contains(seconds));
        Ok(MasterState {
            version: key.arn,
            enabled: key.enabled,
            created: created.and_then(|seconds| format!("{seconds:.0}").parse().ok()),
        })
    }

    /// Under an alias only: key ids are drawn there.
    fn create(&self) -> Result<MasterState, MasterError> {
        if !self.uri.key.starts_with("alias/") {
            return Err(MasterError::Unsupported {
                what: "made",
                of: self.of.clone(),
            });
        }
        match self.state() {
            Err(MasterError::NoSuchKey { .. }) => {}
            Ok(_) => {
                return Err(MasterError::Exists {
                    of: self.of.clone(),
                });
            }
            Err(error) => return Err(error),
        }
        let body = json!({ "Description": "wraps Coffer's table keys" });
        let answer = self.ask(Again::No, "CreateKey", &body, None, None)?;
        let Described { key_metadata: key } = self.parse(&answer)?;
        let body = json!({ "AliasName": self.uri.key, "TargetKeyId": key.arn });
        self.ask(Again::No, "CreateAlias", &body, None, None)?;
        self.state()
    }

    /// The key gets new material under its old ARN.
    fn rotate(&self) -> Result<MasterState, MasterError> {
        let state = self.state()?;
        let body = json!({ "KeyId": state.version });
        self.ask(Again::No, "RotateKeyOnDemand", &body, None, None)?;
        Ok(state)
    }
}

/// Not secret: it is in the clear in the KMS's log.
fn encryption(context: &KeyContext) -> BTreeMap<&'static str, String> {
    BTreeMap::from([
        ("coffer:key", context.label().to_owned()),
        ("coffer:id", hex::encode(context.id())),
    ])
}

/// What an answer refuses, if it is one. The type may come with a namespace before `#`.
fn refusal(answer: &http::Answer) -> Option<Refusal> {
    if answer.status == 200 {
        return None;
    }
    let mut refusal: Refusal = serde_json::from_slice(&answer.body).ok()?;
    let kind = refusal.kind.rsplit('#').next().unwrap_or_default();
    refusal.kind = in_short(kind);
    refusal.message = in_short(&refusal.message);
    (!refusal.kind.is_empty()).then_some(refusal)
}
