//! From a module's file to a session that is logged in.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use aws_lc_rs::digest::{SHA256, digest};
use coffer_custody::{
    MasterError,
    master::{Pin, Pkcs11Uri},
};
use cryptoki::{
    context::{CInitializeArgs, CInitializeFlags, Pkcs11},
    error::{Error, RvError},
    session::{Session, UserType},
    types::AuthPin,
};
use zeroize::Zeroizing;

use crate::in_short;

/// A PIN is no longer.
const MAX_PIN: u64 = 4096;

/// The token of a URI, and the session in it.
pub(super) struct Slot {
    module: PathBuf,
    token: Option<String>,
    serial: Option<String>,
    pin: Pin,
    session: Option<Session>,
    /// SHA-256 of a PIN that the token refused: tried again, it would lock the token.
    refused: Option<Vec<u8>>,
}

impl Slot {
    pub(super) fn new(uri: &Pkcs11Uri) -> Self {
        Self {
            module: uri.module.clone(),
            token: uri.token.clone(),
            serial: uri.serial.clone(),
            pin: uri.pin.clone(),
            session: None,
            refused: None,
        }
    }

    /// The session, opened and logged in where there is none. `of`: the master, for errors.
    pub(super) fn session(&mut self, of: &str) -> Result<&Session, MasterError> {
        let session = match self.session.take() {
            Some(session) => session,
            None => self.open(of)?,
        };
        Ok(self.session.insert(session))
    }

    pub(super) fn close(&mut self) {
        self.session = None;
    }

    fn open(&mut self, of: &str) -> Result<Session, MasterError> {
        let pin = self.pin().map_err(|reason| MasterError::Settings {
            of: of.to_owned(),
            reason,
        })?;
        let hash = digest(&SHA256, pin.as_bytes()).as_ref().to_vec();
        let denied = |reason: &str| MasterError::Denied {
            of: of.to_owned(),
            reason: reason.to_owned(),
        };
        if self.refused.as_ref() == Some(&hash) {
            return Err(denied(
                "the token refused this PIN before; it is not tried again, since that could lock \
                    the token",
            ));
        }
        let failed = |error: Error| failed(of, &error);
        let module = module(&self.module).map_err(failed)?;
        let mut found = None;
        for slot in module.get_slots_with_token().map_err(failed)? {
            let info = module.get_token_info(slot).map_err(failed)?;
            let is_ours = self
                .token
                .as_ref()
                .is_none_or(|label| info.label() == label)
                && self
                    .serial
                    .as_ref()
                    .is_none_or(|serial| info.serial_number() == serial);
            // Two tokens of one label: which is meant is for the owner to say.
            if is_ours && found.replace(slot).is_some() {
                return Err(MasterError::Settings {
                    of: of.to_owned(),
                    reason: "two tokens are named so; add serial=… to its URI".to_owned(),
                });
            }
        }
        let slot = found.ok_or_else(|| MasterError::Unreachable {
            of: of.to_owned(),
            reason: "no such token is there".to_owned(),
        })?;
        let session = module.open_rw_session(slot).map_err(failed)?;
        let pin = AuthPin::new(pin.as_str().into());
        match session.login(UserType::User, Some(&pin)) {
            // By another master in the same token.
            Ok(()) | Err(Error::Pkcs11(RvError::UserAlreadyLoggedIn, _)) => Ok(session),
            Err(Error::Pkcs11(
                RvError::PinIncorrect | RvError::PinInvalid | RvError::PinLenRange,
                _,
            )) => {
                self.refused = Some(hash);
                Err(denied("wrong PIN"))
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn pin(&self) -> Result<Zeroizing<String>, String> {
        pin_of(&self.pin)
    }
}

/// The PIN of a key's token, from where its URI says.
pub(crate) fn pin(uri: &Pkcs11Uri) -> Result<Zeroizing<String>, String> {
    pin_of(&uri.pin)
}

fn pin_of(source: &Pin) -> Result<Zeroizing<String>, String> {
    let pin = match source {
        Pin::Env(name) => {
            Zeroizing::new(std::env::var(name).map_err(|_| format!("{name}, its PIN, is not set"))?)
        }
        Pin::File(path) => {
            let failed =
                |error: std::io::Error| format!("its PIN file {}: {error}", path.display());
            let mut line = Zeroizing::new(String::with_capacity(128));
            let file = fs::File::open(path).map_err(failed)?;
            BufReader::new(file.take(MAX_PIN))
                .read_line(&mut line)
                .map_err(failed)?;
            let end = line.trim_end_matches(['\r', '\n']).len();
            line.truncate(end);
            line
        }
    };
    if pin.is_empty() {
        return Err("its PIN is empty".to_owned());
    }
    Ok(pin)
}

/// A module is loaded and initialised once in a process, whatever many masters are in its tokens.
fn module(path: &Path) -> Result<Pkcs11, Error> {
    static LOADED: OnceLock<Mutex<HashMap<PathBuf, Pkcs11>>> = OnceLock::new();
    let mut loaded = LOADED
        .get_or_init(Mutex::default)
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if let Some(module) = loaded.get(path) {
        return Ok(module.clone());
    }
    let module = Pkcs11::new(path)?;
    match module.initialize(CInitializeArgs::new(CInitializeFlags::OS_LOCKING_OK)) {
        Ok(()) | Err(Error::Pkcs11(RvError::CryptokiAlreadyInitialized, _)) => {}
        Err(error) => return Err(error),
    }
    loaded.insert(path.to_owned(), module.clone());
    Ok(module)
}

/// What a module's error means.
pub(super) fn failed(of: &str, error: &Error) -> MasterError {
    let (of, reason) = (of.to_owned(), in_short(&error.to_string()));
    match error {
        Error::LibraryLoading(_) | Error::MissingSymbol(_) => MasterError::Settings { of, reason },
        Error::Pkcs11(code, _) => match code {
            RvError::PinLocked
            | RvError::PinExpired
            | RvError::UserPinNotInitialized
            | RvError::UserNotLoggedIn
            | RvError::KeyFunctionNotPermitted
            | RvError::ActionProhibited
            | RvError::TokenWriteProtected => MasterError::Denied { of, reason },
            RvError::DeviceError
            | RvError::DeviceRemoved
            | RvError::DeviceMemory
            | RvError::TokenNotPresent
            | RvError::TokenNotRecognized
            | RvError::SlotIdInvalid
            | RvError::SessionCount => MasterError::Unreachable { of, reason },
            RvError::MechanismInvalid
            | RvError::MechanismParamInvalid
            | RvError::FunctionNotSupported => MasterError::Settings { of, reason },
            _ => MasterError::Garbage { of, reason },
        },
        _ => MasterError::Garbage { of, reason },
    }
}
