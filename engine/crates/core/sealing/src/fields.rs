//! Plain binary fields for what is sealed afterwards: integers LE, byte strings behind their length
//! as u32 LE.

use zeroize::Zeroizing;

/// The bytes do not have the form they must have. Callers turn it into an error of their own.
#[derive(Debug)]
pub struct Malformed;

/// Collects fields; zeroed when dropped. `capacity` should cover it all: growing would leave copies
/// behind.
pub struct Writer(Zeroizing<Vec<u8>>);

impl Writer {
    /// Room for so many bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Zeroizing::new(Vec::with_capacity(capacity)))
    }

    /// The bytes alone.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Length-prefixed. A string over 4 GiB cannot be prefixed; what it becomes does not parse.
    pub fn string(&mut self, bytes: &[u8]) -> &mut Self {
        self.raw(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes())
            .raw(bytes)
    }

    /// A number.
    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// A number.
    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// What was collected.
    pub fn finish(self) -> Zeroizing<Vec<u8>> {
        self.0
    }
}

/// Takes fields off the front.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// From the first byte on.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// So many bytes.
    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (found, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(found)
    }

    /// So many bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.raw(N)?.try_into().map_err(|_| Malformed)
    }

    /// Length-prefixed.
    pub fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        self.raw(length)
    }

    /// Length-prefixed UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.string()?).map_err(|_| Malformed)
    }

    /// A number.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A number.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// What is left.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// There must be nothing left.
    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Malformed)
        }
    }
}
