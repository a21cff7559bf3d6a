//! An HSM, or whatever has a PKCS #11 module (OASIS PKCS #11 2.40 and later), through `cryptoki`.
//! The master is an AES-256 key that stays in the token; data keys are drawn here and wrapped
//! there.
//!
//! Keys of one label are versions of one master: the one with the greatest `CKA_ID` wraps, each
//! unwraps what it wrapped. Keys made here have the time as their id, so that a newer one is
//! greater. A URI that names an id means that key alone.
//!
//! The module runs inside this process and is trusted like it. It cannot be interrupted: a token
//! that hangs, hangs its caller.

mod session;

use std::{
    sync::Mutex,
    time::{SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::digest::{SHA256, digest};
use coffer_custody::{
    KeyContext, MasterError, MasterState,
    master::{DataKey, DataKeys, OutsideUri, Pkcs11Uri, WrapMechanism, WrappedDataKey},
};
use coffer_sealing::{Secret, fill_random};
use cryptoki::{
    error::{Error, RvError},
    mechanism::{Mechanism, aead::GcmParams},
    object::{Attribute, AttributeType, KeyType, ObjectClass, ObjectHandle},
    session::Session,
};
use session::Slot;
use zeroize::{Zeroize, Zeroizing};

use crate::garbage;
pub(crate) use session::pin;

/// Bytes of the nonce of AES-GCM; it lies before the ciphertext.
const NONCE: usize = 12;
const TAG_BITS: u64 = 128;

/// An AES key in a token.
pub(crate) struct Token {
    uri: Pkcs11Uri,
    of: String,
    /// One at a time: modules need not be fast in parallel, and a session belongs to one thread at
    /// a time.
    slot: Mutex<Slot>,
}

/// A key that was found.
struct Key {
    handle: ObjectHandle,
    id: Vec<u8>,
    bits: usize,
}

impl Token {
    pub(crate) fn new(uri: Pkcs11Uri) -> Self {
        Self {
            of: OutsideUri::Pkcs11(uri.clone()).to_string(),
            slot: Mutex::new(Slot::new(&uri)),
            uri,
        }
    }

    /// Does this in a session that is logged in. One that broke (the token was pulled, another
    /// program finalised the module) is opened anew, once.
    fn run<T>(
        &self,
        mut work: impl FnMut(&Session) -> Result<T, Problem>,
    ) -> Result<T, MasterError> {
        let mut slot = self
            .slot
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut first = true;
        loop {
            let done = slot
                .session(&self.of)
                .map_err(Problem::Master)
                .and_then(&mut work);
            match done {
                Ok(done) => return Ok(done),
                Err(Problem::Master(error)) => return Err(error),
                Err(Problem::Token(error)) if first && is_broken(&error) => slot.close(),
                Err(Problem::Token(error)) => {
                    slot.close();
                    return Err(session::failed(&self.of, &error));
                }
            }
            first = false;
        }
    }

    /// The keys that these attributes name, beside being AES keys of the token.
    fn find(&self, session: &Session, named: &[Attribute]) -> Result<Vec<Key>, Problem> {
        let mut template = vec![
            Attribute::Class(ObjectClass::SECRET_KEY),
            Attribute::KeyType(KeyType::AES),
            Attribute::Token(true),
        ];
        template.extend_from_slice(named);
        let mut keys = Vec::new();
        for handle in session.find_objects(&template)? {
            let (mut id, mut bits) = (Vec::new(), 0);
            for attribute in
                session.get_attributes(handle, &[AttributeType::Id, AttributeType::ValueLen])?
            {
                match attribute {
                    Attribute::Id(found) => id = found,
                    Attribute::ValueLen(length) => {
                        bits = usize::try_from(*length).unwrap_or(0).saturating_mul(8)
                    }
                    _ => {}
                }
            }
            keys.push(Key { handle, id, bits });
        }
        keys.sort_by(|a, b| (a.id.len(), &a.id).cmp(&(b.id.len(), &b.id)));
        Ok(keys)
    }

    fn named(&self) -> Vec<Attribute> {
        let label = self
            .uri
            .object
            .iter()
            .map(|label| Attribute::Label(label.as_bytes().to_vec()));
        label
            .chain(self.uri.id.iter().map(|id| Attribute::Id(id.clone())))
            .collect()
    }

    /// The key that wraps.
    fn newest(&self, session: &Session) -> Result<Key, Problem> {
        let newest = self.find(session, &self.named())?.pop();
        let key = newest.ok_or_else(|| MasterError::NoSuchKey {
            of: self.of.clone(),
            key: self
                .uri
                .object
                .clone()
                .unwrap_or_else(|| hex::encode(self.uri.id.as_deref().unwrap_or_default())),
        })?;
        if key.bits != 256 {
            return Err(Problem::Master(MasterError::Weak {
                of: self.of.clone(),
                bits: key.bits,
            }));
        }
        Ok(key)
    }

    fn version(&self, key: &Key) -> String {
        match (key.id.as_slice(), &self.uri.object) {
            ([], Some(label)) => format!("label:{label}"),
            (id, _) => format!("id:{}", hex::encode(id)),
        }
    }

    /// The key of a version.
    fn of_version(&self, session: &Session, version: &str) -> Result<Key, Problem> {
        let named = match (
            version.strip_prefix("id:").map(hex::decode),
            version.strip_prefix("label:"),
        ) {
            (Some(Ok(id)), _) => Some(Attribute::Id(id)),
            (_, Some(label)) => Some(Attribute::Label(label.as_bytes().to_vec())),
            _ => None,
        };
        let found = match named {
            Some(named) => self.find(session, &[named])?.pop(),
            None => None,
        };
        found.ok_or_else(|| {
            Problem::Master(MasterError::VersionGone {
                of: self.of.clone(),
                version: version.to_owned(),
            })
        })
    }

    fn wrap(
        &self,
        session: &Session,
        key: ObjectHandle,
        context: &[u8],
        secret: &Secret<32>,
    ) -> Result<Vec<u8>, Problem> {
        match self.uri.mechanism {
            // The token does the AEAD inside itself; the master never leaves it for core/sealing.
            WrapMechanism::AesGcm => {
                let mut nonce = [0; NONCE];
                fill_random(&mut nonce).map_err(MasterError::from)?;
                let drawn = nonce;
                let gcm = Mechanism::AesGcm(GcmParams::new(&mut nonce, context, TAG_BITS.into())?);
                let sealed = session.encrypt(&gcm, key, secret.expose())?;
                Ok([drawn.as_slice(), &sealed].concat())
            }
            WrapMechanism::AesKeyWrapPad => {
                let mut template = session_key();
                template.push(Attribute::Value(secret.expose().to_vec()));
                let object = session.create_object(&template)?;
                wipe(&mut template);
                let wrapped = session.wrap_key(&Mechanism::AesKeyWrapPad, key, object);
                session.destroy_object(object)?;
                Ok(wrapped?)
            }
        }
    }

    fn unwrap(
        &self,
        session: &Session,
        key: ObjectHandle,
        context: &[u8],
        wrapped: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Problem> {
        match self.uri.mechanism {
            WrapMechanism::AesGcm => {
                let (nonce, sealed) = wrapped
                    .split_first_chunk::<NONCE>()
                    .ok_or(Error::InvalidValue)?;
                let mut nonce = *nonce;
                let gcm = Mechanism::AesGcm(GcmParams::new(&mut nonce, context, TAG_BITS.into())?);
                Ok(Zeroizing::new(session.decrypt(&gcm, key, sealed)?))
            }
            WrapMechanism::AesKeyWrapPad => {
                let object =
                    session.unwrap_key(&Mechanism::AesKeyWrapPad, key, wrapped, &session_key())?;
                let value = session.get_attributes(object, &[AttributeType::Value]);
                session.destroy_object(object)?;
                match value?.pop() {
                    Some(Attribute::Value(value)) => Ok(Zeroizing::new(value)),
                    _ => Err(Problem::Token(Error::InvalidValue)),
                }
            }
        }
    }

    /// Draws a key in the token.
    fn draw(&self, session: &Session) -> Result<(), Problem> {
        let id = match &self.uri.id {
            Some(id) => id.clone(),
            None => {
                let now = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                u64::try_from(now.as_millis())
                    .unwrap_or(u64::MAX)
                    .to_be_bytes()
                    .to_vec()
            }
        };
        let mut template = vec![
            Attribute::Token(true),
            Attribute::Private(true),
            Attribute::Sensitive(true),
            Attribute::Extractable(false),
            Attribute::ValueLen(32.into()),
            Attribute::Id(id),
            Attribute::Encrypt(true),
            Attribute::Decrypt(true),
            Attribute::Wrap(true),
            Attribute::Unwrap(true),
        ];
        template.extend(
            self.uri
                .object
                .iter()
                .map(|label| Attribute::Label(label.as_bytes().to_vec())),
        );
        session.generate_key(&Mechanism::AesKeyGen, &template)?;
        Ok(())
    }
}

impl DataKeys for Token {
    fn describe(&self) -> String {
        self.of.clone()
    }

    fn generate(&self, context: &KeyContext) -> Result<DataKey, MasterError> {
        let secret = Secret::generate()?;
        let (version, bytes) = self.run(|session| {
            let key = self.newest(session)?;
            Ok((
                self.version(&key),
                self.wrap(session, key.handle, &aad(context), &secret)?,
            ))
        })?;
        Ok(DataKey {
            secret,
            wrapped: WrappedDataKey { version, bytes },
        })
    }

    fn open(
        &self,
        context: &KeyContext,
        wrapped: &WrappedDataKey,
    ) -> Result<Secret<32>, MasterError> {
        let opened = self.run(|session| {
            let key = self.of_version(session, &wrapped.version)?;
            match self.unwrap(session, key.handle, &aad(context), &wrapped.bytes) {
                Err(Problem::Token(error)) if is_altered(&error) => {
                    Err(MasterError::Altered(*context).into())
                }
                opened => opened,
            }
        })?;
        Secret::from_slice(&opened).map_err(|_| garbage(&self.of, "a data key that is none"))
    }

    fn state(&self) -> Result<MasterState, MasterError> {
        self.run(|session| {
            let key = self.newest(session)?;
            Ok(MasterState {
                version: self.version(&key),
                enabled: true,
                created: None,
            })
        })
    }

    fn create(&self) -> Result<MasterState, MasterError> {
        self.run(|session| {
            if !self.find(session, &self.named())?.is_empty() {
                return Err(MasterError::Exists {
                    of: self.of.clone(),
                }
                .into());
            }
            self.draw(session)
        })?;
        self.state()
    }

    fn rotate(&self) -> Result<MasterState, MasterError> {
        if self.uri.id.is_some() {
            return Err(MasterError::Unsupported {
                what: "rotated while its URI names one id",
                of: self.of.clone(),
            });
        }
        self.run(|session| {
            self.newest(session)?;
            self.draw(session)
        })?;
        self.state()
    }
}

/// Why work in a session ended.
enum Problem {
    /// The module said no.
    Token(Error),
    /// We did.
    Master(MasterError),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Token(error)
    }
}

impl From<MasterError> for Problem {
    fn from(error: MasterError) -> Self {
        Self::Master(error)
    }
}

/// A data key while it is in the token: until this session ends at the latest.
fn session_key() -> Vec<Attribute> {
    vec![
        Attribute::Class(ObjectClass::SECRET_KEY),
        Attribute::KeyType(KeyType::GENERIC_SECRET),
        Attribute::Token(false),
        Attribute::Private(true),
        Attribute::Sensitive(false),
        Attribute::Extractable(true),
    ]
}

fn wipe(template: &mut [Attribute]) {
    for attribute in template {
        if let Attribute::Value(value) = attribute {
            value.zeroize();
        }
    }
}

/// What AES-GCM authenticates: 32 bytes of label and id.
fn aad(context: &KeyContext) -> [u8; 32] {
    let mut aad = [0; 32];
    let whole = [context.label().as_bytes(), context.id()].concat();
    aad.copy_from_slice(digest(&SHA256, &whole).as_ref());
    aad
}

fn is_broken(error: &Error) -> bool {
    matches!(
        error,
        Error::Pkcs11(
            RvError::SessionHandleInvalid
                | RvError::SessionClosed
                | RvError::UserNotLoggedIn
                | RvError::DeviceRemoved
                | RvError::TokenNotPresent
                | RvError::CryptokiNotInitialized
                | RvError::KeyHandleInvalid
                | RvError::ObjectHandleInvalid,
            _
        )
    )
}

/// As modules call what does not open.
fn is_altered(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidValue
            | Error::Pkcs11(
                RvError::EncryptedDataInvalid
                    | RvError::EncryptedDataLenRange
                    | RvError::WrappedKeyInvalid
                    | RvError::WrappedKeyLenRange
                    | RvError::DataInvalid,
                _
            )
    )
}
