//! The Hadoop KMS, over its REST interface (Hadoop 3.4, "Hadoop Key Management Server (KMS) -
//! Documentation Sets"), with simple authentication: the server is told a user's name and believes
//! it, so it must be reached by friends alone; TLS proves the server, not the user.
//!
//! A data key is what Hadoop calls an EDEK: the server draws it and wraps it. Key material is never
//! asked for. The server binds no context to an EDEK; the envelope around it does.

use std::sync::OnceLock;

use base64::Engine;
use coffer_custody::{
    KeyContext, MasterError, MasterState,
    master::{DataKey, DataKeys, HadoopKmsUri, OutsideUri, WrappedDataKey},
};
use coffer_sealing::Secret;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde_json::json;
use ureq::http::{Method, Request};

use crate::{
    garbage,
    http::{Answer, Http, Trouble},
    in_short,
    retry::{Again, Servers},
    secret_text::{SecretText, URL_SAFE},
};

/// What new keys are: Hadoop wraps EDEKs with this cipher.
const CIPHER: &str = "AES/CTR/NoPadding";

/// A key of a Hadoop KMS.
pub(crate) struct HadoopKms {
    uri: HadoopKmsUri,
    of: String,
    servers: Servers,
    http: OnceLock<Http>,
}

/// An EDEK in JSON.
#[derive(Deserialize)]
struct Edek {
    #[serde(rename = "versionName")]
    version: String,
    iv: String,
    #[serde(rename = "encryptedKeyVersion")]
    encrypted: Material<String>,
}

#[derive(Deserialize)]
struct Material<T> {
    material: T,
}

/// A key's metadata; all is absent of a key that does not exist.
#[derive(Deserialize)]
struct Metadata {
    length: Option<usize>,
    versions: Option<u64>,
    /// Milliseconds since 1970.
    created: Option<u64>,
}

/// How the server says no.
#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "RemoteException")]
    remote: RemoteException,
}

#[derive(Deserialize)]
struct RemoteException {
    #[serde(default)]
    exception: String,
    #[serde(default)]
    message: String,
}

impl HadoopKms {
    pub(crate) fn new(uri: HadoopKmsUri) -> Self {
        let of = OutsideUri::HadoopKms(uri.clone()).to_string();
        Self {
            servers: Servers::new(of.clone(), uri.servers.clone(), uri.limits.timeout),
            of,
            uri,
            http: OnceLock::new(),
        }
    }

    fn http(&self) -> Result<&Http, MasterError> {
        if let Some(http) = self.http.get() {
            return Ok(http);
        }
        let http = Http::new(
            &self.uri.servers,
            &self.uri.plain_http,
            self.uri.ca.as_deref(),
        )
        .map_err(|reason| MasterError::Settings {
            of: self.of.clone(),
            reason,
        })?;
        Ok(self.http.get_or_init(|| http))
    }

    /// `path` may have a query already.
    fn ask(
        &self,
        again: Again,
        method: &Method,
        path: &str,
        body: Option<serde_json::Value>,
    ) -> Result<Answer, MasterError> {
        let http = self.http()?;
        let user = utf8_percent_encode(&self.uri.user, NON_ALPHANUMERIC);
        let (mark, body) = (
            if path.contains('?') { '&' } else { '?' },
            body.map(|body| body.to_string()),
        );
        self.servers.ask(again, |server, within| {
            let request = Request::builder()
                .method(method)
                .uri(format!("{server}/v1/{path}{mark}user.name={user}"))
                .header("content-type", "application/json")
                .body(body.clone().unwrap_or_default().into_bytes())
                .map_err(|error| Trouble::Garbage(error.to_string()))?;
            http.exchange(request, within)
        })
    }

    fn parse<'a, T: Deserialize<'a>>(&self, answer: &'a Answer) -> Result<T, MasterError> {
        // serde_json's errors say where and which kind of thing, never the value.
        serde_json::from_slice(&answer.body)
            .map_err(|error| garbage(&self.of, format!("its JSON: {error}")))
    }

    /// Why it said no. `version`: of the EDEK that was to be opened.
    fn refused(&self, answer: &Answer, version: Option<&str>) -> MasterError {
        let Ok(Refusal { remote }) = serde_json::from_slice::<Refusal>(&answer.body) else {
            return match answer.status {
                401 | 403 => self.denied(format!("status {}", answer.status)),
                status => garbage(&self.of, format!("status {status}, and no reason")),
            };
        };
        let message = in_short(&remote.message);
        let is_denial = [
            "Authorization",
            "Authentication",
            "AccessControl",
            "Security",
        ]
        .iter()
        .any(|kind| remote.exception.contains(kind));
        if is_denial || matches!(answer.status, 401 | 403) {
            return self.denied(message);
        }
        // Of a missing key and a missing version it says different things from place to place; so
        // it is asked.
        let key = version.map_or(self.uri.key.as_str(), key_of);
        match (self.metadata(key), version) {
            (Ok(None), _) => MasterError::NoSuchKey {
                of: self.of.clone(),
                key: key.to_owned(),
            },
            (Ok(Some(metadata)), Some(version)) if !has_version(&metadata, version) => {
                self.gone(version)
            }
            _ if remote.message.contains("not found")
                || remote.message.contains("doesn't exist") =>
            {
                version.map_or_else(
                    || garbage(&self.of, message.clone()),
                    |version| self.gone(version),
                )
            }
            _ => garbage(
                &self.of,
                format!("{}: {message}", in_short(&remote.exception)),
            ),
        }
    }

    fn denied(&self, message: String) -> MasterError {
        MasterError::Denied {
            of: format!("{} for user {:?}", self.of, self.uri.user),
            reason: message,
        }
    }

    fn gone(&self, version: &str) -> MasterError {
        MasterError::VersionGone {
            of: self.of.clone(),
            version: version.to_owned(),
        }
    }

    fn metadata(&self, key: &str) -> Result<Option<Metadata>, MasterError> {
        let answer = self.ask(
            Again::Yes,
            &Method::GET,
            &format!("key/{key}/_metadata"),
            None,
        )?;
        match answer.status {
            200 => {
                let metadata: Option<Metadata> = self.parse(&answer)?;
                Ok(metadata.filter(|metadata| metadata.versions.is_some()))
            }
            404 => Ok(None),
            401 | 403 => Err(self.denied(answer.message())),
            status => Err(garbage(
                &self.of,
                format!("status {status}: {}", answer.message()),
            )),
        }
    }

    fn edek(&self, edek: &Edek) -> Result<WrappedDataKey, MasterError> {
        let decode = |text: &str| URL_SAFE.decode(text).ok();
        let (iv, material) = (decode(&edek.iv), decode(&edek.encrypted.material));
        match (iv, material) {
            (Some(iv), Some(material)) if iv.len() == 16 && is_version(&edek.version) => {
                if material.len() != 32 {
                    return Err(MasterError::Weak {
                        of: self.of.clone(),
                        bits: material.len().saturating_mul(8),
                    });
                }
                Ok(WrappedDataKey {
                    version: edek.version.clone(),
                    bytes: [iv, material].concat(),
                })
            }
            _ => Err(garbage(&self.of, "an EDEK that is none")),
        }
    }

    /// Sends an EDEK to have this done with it.
    fn send(&self, operation: &str, wrapped: &WrappedDataKey) -> Result<Answer, MasterError> {
        let Some((iv, material)) = wrapped
            .bytes
            .split_at_checked(16)
            .filter(|_| is_version(&wrapped.version))
        else {
            return Err(self.gone(&wrapped.version));
        };
        let body = json!({
            "name": key_of(&wrapped.version),
            "iv": URL_SAFE.encode(iv),
            "material": URL_SAFE.encode(material),
        });
        let version = utf8_percent_encode(&wrapped.version, NON_ALPHANUMERIC);
        let path = format!("keyversion/{version}/_eek?eek_op={operation}");
        let answer = self.ask(Again::Yes, &Method::POST, &path, Some(body))?;
        match answer.status {
            200 => Ok(answer),
            _ => Err(self.refused(&answer, Some(&wrapped.version))),
        }
    }
}

impl DataKeys for HadoopKms {
    fn describe(&self) -> String {
        self.of.clone()
    }

    fn generate(&self, context: &KeyContext) -> Result<DataKey, MasterError> {
        let path = format!("key/{}/_eek?eek_op=generate&num_keys=1", self.uri.key);
        let answer = self.ask(Again::Yes, &Method::GET, &path, None)?;
        if answer.status != 200 {
            return Err(self.refused(&answer, None));
        }
        let edeks: Vec<Edek> = self.parse(&answer)?;
        let [edek] = edeks.as_slice() else {
            return Err(garbage(
                &self.of,
                format!("{} EDEKs instead of one", edeks.len()),
            ));
        };
        let wrapped = self.edek(edek)?;
        Ok(DataKey {
            secret: self.open(context, &wrapped)?,
            wrapped,
        })
    }

    fn open(&self, _: &KeyContext, wrapped: &WrappedDataKey) -> Result<Secret<32>, MasterError> {
        let answer = self.send("decrypt", wrapped)?;
        let opened: Material<SecretText> = self.parse(&answer)?;
        let bytes = opened.material.decode(&URL_SAFE);
        bytes
            .and_then(|bytes| Secret::from_slice(&bytes).ok())
            .ok_or_else(|| garbage(&self.of, "a data key that is none"))
    }

    fn renew(
        &self,
        context: &KeyContext,
        wrapped: &WrappedDataKey,
    ) -> Result<Option<WrappedDataKey>, MasterError> {
        let _ = context;
        // Another key's EDEK stays another key's: that is not what the policy asks for.
        if key_of(&wrapped.version) != self.uri.key {
            return Ok(None);
        }
        let answer = self.send("reencrypt", wrapped)?;
        let edek: Edek = self.parse(&answer)?;
        self.edek(&edek).map(Some)
    }

    fn state(&self) -> Result<MasterState, MasterError> {
        let metadata = self
            .metadata(&self.uri.key)?
            .ok_or_else(|| MasterError::NoSuchKey {
                of: self.of.clone(),
                key: self.uri.key.clone(),
            })?;
        if let Some(bits) = metadata.length.filter(|bits| *bits != 256) {
            return Err(MasterError::Weak {
                of: self.of.clone(),
                bits,
            });
        }
        let newest = metadata
            .versions
            .and_then(|versions| versions.checked_sub(1));
        let newest = newest.ok_or_else(|| garbage(&self.of, "a key without versions"))?;
        Ok(MasterState {
            version: format!("{}@{newest}", self.uri.key),
            enabled: true,
            created: metadata.created.map(|millis| millis / 1000),
        })
    }

    fn create(&self) -> Result<MasterState, MasterError> {
        if self.metadata(&self.uri.key)?.is_some() {
            return Err(MasterError::Exists {
                of: self.of.clone(),
            });
        }
        let body = json!({
            "name": self.uri.key, "cipher": CIPHER, "length": 256, "description": "wraps Coffer's \
                table keys",
        });
        let answer = self.ask(Again::No, &Method::POST, "keys", Some(body))?;
        match answer.status {
            200 | 201 => self.state(),
            _ => Err(self.refused(&answer, None)),
        }
    }

    fn rotate(&self) -> Result<MasterState, MasterError> {
        let answer = self.ask(
            Again::No,
            &Method::POST,
            &format!("key/{}", self.uri.key),
            Some(json!({})),
        )?;
        match answer.status {
            200 | 201 => self.state(),
            _ => Err(self.refused(&answer, None)),
        }
    }
}

/// `payroll` of `payroll@3`.
fn key_of(version: &str) -> &str {
    version.rsplit_once('@').map_or(version, |(key, _)| key)
}

fn number_of(version: &str) -> Option<u64> {
    version
        .rsplit_once('@')
        .and_then(|(_, number)| number.parse().ok())
}

fn is_version(version: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let key = key_of(version);
    number_of(version).is_some() && !key.is_empty() && key.chars().all(plain)
}

fn has_version(metadata: &Metadata, version: &str) -> bool {
    number_of(version)
        .is_some_and(|number| metadata.versions.is_some_and(|versions| number < versions))
}
