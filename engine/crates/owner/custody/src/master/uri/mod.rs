//! How a policy names a master: a URI. Checked when the policy is read; nobody is asked.
//!
//! ```text
//! keyring:NAME
//! hadoop-kms:https://HOST:PORT[,HOST:PORT…]/kms?key=NAME&user=NAME[&ca=FILE&plain-http=HOST,…]
//! aws-kms:KEY-ID | ARN | alias/NAME [?region=R&endpoint=URL&profile=NAME&ca=FILE&plain-http=HOST]
//! pkcs11:token=LABEL;object=LABEL[;id=%01…][;serial=S]
//!   ?module-path=FILE&pin-source=file:FILE|env:NAME[&mechanism=M]
//! ```
//! The last is RFC 7512's form. All but the first take `timeout` and `cache`, in seconds. A secret
//! in a URI is an error: the policy is a file that people read and copy.

mod error;
mod parts;

use std::{
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use parts::{Attributes, decode, plain_http, servers};

pub use error::UriError;

/// The schemes, as hints name them.
pub(crate) const SCHEMES: [&str; 4] = ["keyring", "hadoop-kms", "aws-kms", "pkcs11"];

/// A master, as a policy names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MasterUri {
    /// A master of the embedded keyring, by its name there.
    Keyring(String),
    /// A master elsewhere.
    Outside(OutsideUri),
}

/// A master outside of the keyring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OutsideUri {
    /// A key of a Hadoop KMS.
    HadoopKms(HadoopKmsUri),
    /// A key of the AWS KMS.
    AwsKms(AwsKmsUri),
    /// A key of an HSM.
    Pkcs11(Pkcs11Uri),
}

/// How long calls may take, and how long what they gave is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A whole call, repetitions and waiting between them included.
    pub timeout: Duration,
    /// An unwrapped key is used without asking again for so long.
    pub cache: Duration,
}

/// A key of a Hadoop KMS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HadoopKmsUri {
    /// Base URLs, in the order in which they are tried: `http://host:9600/kms`.
    pub servers: Vec<String>,
    /// The key's name there.
    pub key: String,
    /// The user that the server is told.
    pub user: String,
    /// PEM certificates that the server's may come from, instead of the system's.
    pub ca: Option<PathBuf>,
    /// Hosts that may be asked over plain HTTP; this machine may be always.
    pub plain_http: Vec<String>,
    /// Limits of calls.
    pub limits: Limits,
}

/// A key of the AWS KMS, or of a server that speaks its protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsKmsUri {
    /// Key id, ARN, or alias.
    pub key: String,
    /// The region; else the ARN's, the environment's, or the profile's.
    pub region: Option<String>,
    /// Another address than Amazon's for the region.
    pub endpoint: Option<String>,
    /// The profile of the shared files; else the environment's, else `default`.
    pub profile: Option<String>,
    /// PEM certificates that the server's may come from, instead of the system's.
    pub ca: Option<PathBuf>,
    /// Hosts that may be asked over plain HTTP; this machine may be always.
    pub plain_http: Vec<String>,
    /// Limits of calls.
    pub limits: Limits,
}

/// A secret AES key in a PKCS #11 token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pkcs11Uri {
    /// The module, a shared library of the HSM's vendor.
    pub module: PathBuf,
    /// The token's label.
    pub token: Option<String>,
    /// The token's serial number.
    pub serial: Option<String>,
    /// The key's label.
    pub object: Option<String>,
    /// The key's id.
    pub id: Option<Vec<u8>>,
    /// Where its PIN is.
    pub pin: Pin,
    /// How it wraps.
    pub mechanism: WrapMechanism,
    /// Limits of calls; a module is not interrupted, so that of its time only counts between calls.
    pub limits: Limits,
}

/// Where the PIN of a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pin {
    /// The file's first line.
    File(PathBuf),
    /// This environment variable.
    Env(String),
}

/// How an HSM wraps data keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WrapMechanism {
    /// `CKM_AES_GCM`, with the context as associated data.
    AesGcm,
    /// `CKM_AES_KEY_WRAP_PAD` (RFC 5649).
    AesKeyWrapPad,
}

impl MasterUri {
    /// Reads a URI; relative file names count from `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, UriError> {
        let (scheme, rest) = text.split_once(':').ok_or(UriError::NoScheme)?;
        match scheme {
            "keyring" => keyring(rest),
            "hadoop-kms" => Ok(Self::Outside(OutsideUri::HadoopKms(hadoop(rest, folder)?))),
            "aws-kms" => Ok(Self::Outside(OutsideUri::AwsKms(aws(rest, folder)?))),
            "pkcs11" => Ok(Self::Outside(OutsideUri::Pkcs11(pkcs11(rest, folder)?))),
            _ => Err(UriError::UnknownScheme(scheme.chars().take(40).collect())),
        }
    }

    /// Hosts that are asked over plain HTTP, though they may be other machines.
    pub fn plain_http(&self) -> &[String] {
        match self {
            Self::Outside(OutsideUri::HadoopKms(uri)) => &uri.plain_http,
            Self::Outside(OutsideUri::AwsKms(uri)) => &uri.plain_http,
            Self::Keyring(_) | Self::Outside(OutsideUri::Pkcs11(_)) => &[],
        }
    }

    /// Its scheme.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Keyring(_) => "keyring",
            Self::Outside(OutsideUri::HadoopKms(_)) => "hadoop-kms",
            Self::Outside(OutsideUri::AwsKms(_)) => "aws-kms",
            Self::Outside(OutsideUri::Pkcs11(_)) => "pkcs11",
        }
    }
}

/// What and where, in short; options are left out.
impl fmt::Display for MasterUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyring(name) => write!(f, "keyring:{name}"),
            Self::Outside(uri) => uri.fmt(f),
        }
    }
}

/// As [`MasterUri`]'s.
impl fmt::Display for OutsideUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HadoopKms(uri) => {
                let servers: Vec<&str> = uri.servers.iter().map(String::as_str).collect();
                write!(f, "hadoop-kms:{} key {}", servers.join(","), uri.key)
            }
            Self::AwsKms(uri) => match &uri.endpoint {
                Some(endpoint) => write!(f, "aws-kms:{} at {endpoint}", uri.key),
                None => write!(f, "aws-kms:{}", uri.key),
            },
            Self::Pkcs11(uri) => {
                let token = uri
                    .token
                    .as_deref()
                    .or(uri.serial.as_deref())
                    .unwrap_or("(any)");
                match (&uri.object, &uri.id) {
                    (Some(object), _) => write!(f, "pkcs11: key {object} of token {token}"),
                    (None, Some(id)) => {
                        write!(f, "pkcs11: key %{} of token {token}", hex::encode(id))
                    }
                    (None, None) => write!(f, "pkcs11: token {token}"),
                }
            }
        }
    }
}

fn keyring(rest: &str) -> Result<MasterUri, UriError> {
    crate::keyring::check_master_name(rest).map_err(|_| UriError::BadValue {
        what: "master's name",
        value: short(rest),
    })?;
    Ok(MasterUri::Keyring(rest.to_owned()))
}

fn hadoop(rest: &str, folder: &Path) -> Result<HadoopKmsUri, UriError> {
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut options = Attributes::parse(query, '&')?;
    let servers = servers(address)?;
    let uri = HadoopKmsUri {
        plain_http: plain_http(&servers, options.take("plain-http")?)?,
        servers,
        key: key_name(options.needed("key")?)?,
        user: user_name(options.needed("user")?)?,
        ca: options.take("ca")?.map(|file| folder.join(file)),
        limits: limits(&mut options)?,
    };
    options.end()?;
    Ok(uri)
}

fn aws(rest: &str, folder: &Path) -> Result<AwsKmsUri, UriError> {
    let (key, query) = rest.split_once('?').unwrap_or((rest, ""));
    let key = decode(key)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ':' | '/' | '_' | '-');
    if key.is_empty() || key.len() > 2048 || !key.chars().all(plain) {
        return Err(UriError::BadValue {
            what: "key id, ARN or alias",
            value: short(&key),
        });
    }
    let mut options = Attributes::parse(query, '&')?;
    let endpoint = match options.take("endpoint")? {
        None => None,
        Some(text) => match servers(&text)?.as_slice() {
            [one] => Some(one.clone()),
            _ => {
                return Err(UriError::BadValue {
                    what: "endpoint",
                    value: short(&text),
                });
            }
        },
    };
    let uri = AwsKmsUri {
        key,
        region: options.take("region")?.map(region_name).transpose()?,
        plain_http: plain_http(endpoint.as_slice(), options.take("plain-http")?)?,
        endpoint,
        profile: options.take("profile")?,
        ca: options.take("ca")?.map(|file| folder.join(file)),
        limits: limits(&mut options)?,
    };
    options.end()?;
    Ok(uri)
}

fn pkcs11(rest: &str, folder: &Path) -> Result<Pkcs11Uri, UriError> {
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (mut path, mut options) = (
        Attributes::parse(path, ';')?,
        Attributes::parse(query, '&')?,
    );
    // RFC 7512: of what type the object is. Only this one can be meant.
    if let Some(kind) = path.take("type")?.filter(|kind| kind != "secret-key") {
        return Err(UriError::BadValue {
            what: "type",
            value: short(&kind),
        });
    }
    let pin = options.needed("pin-source")?;
    let pin = match (pin.strip_prefix("env:"), pin.strip_prefix("file:")) {
        (Some(name), _) => Pin::Env(name.to_owned()),
        (None, Some(file)) => Pin::File(folder.join(file.strip_prefix("//").unwrap_or(file))),
        (None, None) => Pin::File(folder.join(&pin)),
    };
    let mechanism = match options.take("mechanism")?.as_deref() {
        None | Some("aes-gcm") => WrapMechanism::AesGcm,
        Some("aes-key-wrap-pad") => WrapMechanism::AesKeyWrapPad,
        Some(other) => {
            return Err(UriError::BadValue {
                what: "mechanism",
                value: short(other),
            });
        }
    };
    let uri = Pkcs11Uri {
        module: folder.join(options.needed("module-path")?),
        token: path.take("token")?,
        serial: path.take("serial")?,
        object: path.take("object")?,
        id: path.take_bytes("id")?,
        pin,
        mechanism,
        limits: limits(&mut options)?,
    };
    if uri.object.is_none() && uri.id.is_none() {
        return Err(UriError::Missing("object"));
    }
    if uri.token.is_none() && uri.serial.is_none() {
        return Err(UriError::Missing("token"));
    }
    path.end()?;
    options.end()?;
    Ok(uri)
}

fn limits(options: &mut Attributes) -> Result<Limits, UriError> {
    Ok(Limits {
        timeout: Duration::from_secs(options.seconds("timeout", 20, 1..=600)?),
        cache: Duration::from_secs(options.seconds("cache", 300, 0..=86_400)?),
    })
}

/// A key's name is part of a path, and a version's name is the key's, `@` and a number.
fn key_name(name: String) -> Result<String, UriError> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 128 || !name.chars().all(plain) {
        return Err(UriError::BadValue {
            what: "key",
            value: short(&name),
        });
    }
    Ok(name)
}

fn user_name(name: String) -> Result<String, UriError> {
    if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        return Err(UriError::BadValue {
            what: "user",
            value: short(&name),
        });
    }
    Ok(name)
}

/// A region is part of a host's name.
fn region_name(name: String) -> Result<String, UriError> {
    if name.is_empty()
        || name.len() > 64
        || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
    {
        return Err(UriError::BadValue {
            what: "region",
            value: short(&name),
        });
    }
    Ok(name)
}

fn short(text: &str) -> String {
    text.chars().take(80).collect()
}

#[cfg(test)]
mod tests;
