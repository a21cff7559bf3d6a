//! `aes_encrypt` and `aes_decrypt`, as Java's ciphers have them: GCM with a nonce of 12 bytes and a
//! tag of 16, CBC and ECB with PKCS #7 padding; what is drawn stands before the ciphertext. Keys
//! are values here, in arguments: nothing of the engine's own is protected by this module.

use aes_gcm::{
    AesGcm,
    aead::{Aead, Payload, consts::U12},
    aes::{
        Aes128, Aes192, Aes256,
        cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockSizeUser, KeyInit},
    },
};
use arrow::datatypes::DataType;

use crate::{
    SparkError, Unsupported,
    function::{CallInfo, Entry, Fallible, Kernel, entry},
    rows::{self, Nulls},
};

pub(crate) const FUNCTIONS: &[Entry] = &[
    entry("aes_encrypt", Fallible::Always, aes_encrypt),
    entry("aes_decrypt", Fallible::Always, aes_decrypt),
];

type Built = Result<Kernel, Unsupported>;
type Block = [u8; 16];

const UTF8: DataType = DataType::Utf8;
const BINARY: DataType = DataType::Binary;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Ecb,
    Cbc,
    Gcm,
}

impl Mode {
    fn of(name: &str, padding: &str) -> Result<Self, SparkError> {
        let padded =
            |of: &str| padding.eq_ignore_ascii_case(of) || padding.eq_ignore_ascii_case("DEFAULT");
        let named = |of: &str| name.eq_ignore_ascii_case(of);
        match () {
            () if named("ECB") && padded("PKCS") => Ok(Self::Ecb),
            () if named("CBC") && padded("PKCS") => Ok(Self::Cbc),
            () if named("GCM") && padded("NONE") => Ok(Self::Gcm),
            () => Err(SparkError::new(
                "UNSUPPORTED_FEATURE.AES_MODE",
                format!(
                    "AES-{name} with the padding {padding} by the `aes_encrypt`/`aes_decrypt`."
                ),
            )),
        }
    }

    fn nonce(self) -> usize {
        match self {
            Self::Ecb => 0,
            Self::Cbc => 16,
            Self::Gcm => 12,
        }
    }
}

/// What Java's ciphers throw.
fn failed() -> SparkError {
    SparkError::new(
        "INVALID_PARAMETER_VALUE.AES_CRYPTO_ERROR",
        "The value of parameter(s) `expr`, `key` in `aes_encrypt`/`aes_decrypt` is invalid.",
    )
}

fn no_aad() -> SparkError {
    SparkError::new(
        "UNSUPPORTED_FEATURE.AES_MODE_AAD",
        "`aes_encrypt` and `aes_decrypt` take additional authenticated data in the mode GCM only.",
    )
}

/// The cipher with one of AES's three lengths of keys.
enum Key {
    Short(Aes128, AesGcm<Aes128, U12>),
    Middle(Aes192, AesGcm<Aes192, U12>),
    Long(Aes256, AesGcm<Aes256, U12>),
}

macro_rules! by_length {
    ($key:expr, |$block:ident, $gcm:ident| $body:expr) => {
        match $key {
            Key::Short($block, $gcm) => $body,
            Key::Middle($block, $gcm) => $body,
            Key::Long($block, $gcm) => $body,
        }
    };
}

fn made<C: KeyInit>(key: &[u8]) -> Result<C, SparkError> {
    C::new_from_slice(key).map_err(|_| failed())
}

impl Key {
    fn new(key: &[u8]) -> Result<Self, SparkError> {
        match key.len() {
            16 => Ok(Self::Short(made(key)?, made(key)?)),
            24 => Ok(Self::Middle(made(key)?, made(key)?)),
            32 => Ok(Self::Long(made(key)?, made(key)?)),
            length => Err(SparkError::new(
                "INVALID_PARAMETER_VALUE.AES_KEY_LENGTH",
                format!("expects a binary value with 16, 24 or 32 bytes, but got {length} bytes."),
            )),
        }
    }

    fn encrypt(&self, mode: Mode, nonce: &[u8], aad: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        by_length!(self, |block, gcm| match mode {
            Mode::Gcm => sealed(gcm, nonce, aad, plain),
            Mode::Cbc => Some(chained(block, nonce.try_into().ok(), plain)),
            Mode::Ecb => Some(chained(block, None, plain)),
        })
    }

    fn decrypt(&self, mode: Mode, nonce: &[u8], aad: &[u8], text: &[u8]) -> Option<Vec<u8>> {
        by_length!(self, |block, gcm| match mode {
            Mode::Gcm => opened(gcm, nonce, aad, text),
            Mode::Cbc => unchained(block, nonce.try_into().ok(), text),
            Mode::Ecb => unchained(block, None, text),
        })
    }
}

fn sealed(
    gcm: &impl Aead<NonceSize = U12>,
    nonce: &[u8],
    aad: &[u8],
    msg: &[u8],
) -> Option<Vec<u8>> {
    let nonce: [u8; 12] = nonce.try_into().ok()?;
    gcm.encrypt(&Array(nonce), Payload { msg, aad }).ok()
}

fn opened(
    gcm: &impl Aead<NonceSize = U12>,
    nonce: &[u8],
    aad: &[u8],
    msg: &[u8],
) -> Option<Vec<u8>> {
    let nonce: [u8; 12] = nonce.try_into().ok()?;
    gcm.decrypt(&Array(nonce), Payload { msg, aad }).ok()
}

fn xor(block: &mut Block, other: Option<&Block>) {
    for (byte, other) in block.iter_mut().zip(other.into_iter().flatten()) {
        *byte ^= other;
    }
}

/// Padded, block after block; with the block before mixed in, if one is before the first.
fn chained<C>(cipher: &C, first: Option<Block>, plain: &[u8]) -> Vec<u8>
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = aes_gcm::aead::consts::U16>,
{
    let mut padded = plain.to_vec();
    let missing = 16 - plain.len() % 16;
    padded.resize(
        plain.len() + missing,
        u8::try_from(missing).unwrap_or_default(),
    );
    let mut before = first;
    let mut out = Vec::with_capacity(padded.len());
    for block in padded.as_chunks::<16>().0 {
        let mut block = *block;
        xor(&mut block, before.as_ref());
        let mut array = Array(block);
        cipher.encrypt_block(&mut array);
        out.extend(array.0);
        before = before.map(|_| array.0);
    }
    out
}

fn unchained<C>(cipher: &C, first: Option<Block>, text: &[u8]) -> Option<Vec<u8>>
where
    C: BlockCipherDecrypt + BlockSizeUser<BlockSize = aes_gcm::aead::consts::U16>,
{
    let (blocks, rest) = text.as_chunks::<16>();
    if !rest.is_empty() {
        return None;
    }
    let mut before = first;
    let mut out = Vec::with_capacity(text.len());
    for block in blocks {
        let mut array = Array(*block);
        cipher.decrypt_block(&mut array);
        let mut plain = array.0;
        xor(&mut plain, before.as_ref());
        out.extend(plain);
        before = before.map(|_| *block);
    }
    // Of nothing Java takes off no padding.
    let Some(last) = out.last().copied() else {
        return Some(out);
    };
    let count = usize::from(last);
    let kept = out
        .len()
        .checked_sub(count)
        .filter(|_| (1..=16).contains(&count))?;
    let padding = out.get(kept..)?;
    if padding.iter().any(|byte| *byte != last) {
        return None;
    }
    out.truncate(kept);
    Some(out)
}

fn aes_encrypt(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[BINARY, BINARY, UTF8, UTF8, BINARY, BINARY], &BINARY)?;
    Ok(rows::bytes(Nulls::GiveNull, |row, out| {
        let (Some(plain), Some(key), Some(iv), Some(aad)) =
            (row.bytes(0), row.bytes(1), row.bytes(4), row.bytes(5))
        else {
            return Ok(None);
        };
        let (Some(name), Some(padding)) = (row.text(2), row.text(3)) else {
            return Ok(None);
        };
        let key = Key::new(key)?;
        let mode = Mode::of(name, padding)?;
        if mode == Mode::Ecb && !iv.is_empty() {
            return Err(SparkError::new(
                "UNSUPPORTED_FEATURE.AES_MODE_IV",
                format!("`aes_encrypt` with AES-{name} takes no initialization vector (IV)."),
            ));
        }
        if mode != Mode::Ecb && iv.is_empty() {
            return Err(SparkError::new(
                "UNSUPPORTED_AES_IV",
                "an initialization vector is not drawn in engines",
            ));
        }
        if iv.len() != mode.nonce() {
            return Err(SparkError::new(
                "INVALID_PARAMETER_VALUE.AES_IV_LENGTH",
                format!(
                    "supports {name} mode with another length of IV than {}.",
                    iv.len()
                ),
            ));
        }
        if !aad.is_empty() && mode != Mode::Gcm {
            return Err(no_aad());
        }
        out.extend(iv);
        out.extend(key.encrypt(mode, iv, aad, plain).ok_or_else(failed)?);
        Ok(Some(()))
    }))
}

fn aes_decrypt(call: &CallInfo<'_>) -> Built {
    rows::takes(call, &[BINARY, BINARY, UTF8, UTF8, BINARY], &BINARY)?;
    let tries = call.mode == coffer_protocol::plan::EvalMode::Try;
    let decrypted = |row: &rows::Row<'_>, out: &mut Vec<u8>| {
        let (Some(text), Some(key), Some(aad)) = (row.bytes(0), row.bytes(1), row.bytes(4)) else {
            return Ok(None);
        };
        let (Some(name), Some(padding)) = (row.text(2), row.text(3)) else {
            return Ok(None);
        };
        let key = Key::new(key)?;
        let mode = Mode::of(name, padding)?;
        let (nonce, text) = text.split_at_checked(mode.nonce()).ok_or_else(failed)?;
        // In ECB Spark does not look at the additional data.
        if mode == Mode::Cbc && !aad.is_empty() {
            return Err(no_aad());
        }
        out.extend(key.decrypt(mode, nonce, aad, text).ok_or_else(failed)?);
        Ok(Some(()))
    };
    Ok(rows::bytes(
        Nulls::GiveNull,
        move |row, out| match decrypted(row, out) {
            Err(_) if tries => Ok(None),
            decrypted => decrypted,
        },
    ))
}
