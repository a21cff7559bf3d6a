use coffer_sealing::{LinkId, TableId};

use super::*;

/// A KMS whose data key is always the same, and whose wrapped form is any bytes.
struct Fixed;

impl DataKeys for Fixed {
    fn describe(&self) -> String {
        "fixed".into()
    }

    fn generate(&self, _: &KeyContext) -> Result<DataKey, MasterError> {
        Ok(DataKey {
            secret: Secret::from_bytes([7; 32]),
            wrapped: WrappedDataKey {
                version: "k@3".into(),
                bytes: vec![1, 2, 3],
            },
        })
    }

    fn open(&self, _: &KeyContext, wrapped: &WrappedDataKey) -> Result<Secret<32>, MasterError> {
        // As a KMS that cannot bind contexts: other bytes are another key.
        let first = wrapped.bytes.first().copied().unwrap_or_default();
        Ok(Secret::from_bytes([first.wrapping_add(6); 32]))
    }

    fn state(&self) -> Result<MasterState, MasterError> {
        Err(MasterError::Unsupported {
            what: "asked",
            of: self.describe(),
        })
    }
}

const TABLE: KeyContext = KeyContext::Table(TableId([1; 16]));

fn wrapped() -> (Secret<32>, Vec<u8>) {
    let secret = Secret::from_bytes([9; 32]);
    let bytes = Envelope(Fixed).wrap(&TABLE, &secret).unwrap();
    (secret, bytes)
}

#[test]
fn opens_for_its_context_alone() {
    let (secret, bytes) = wrapped();
    let master = Envelope(Fixed);
    assert!(master.unwrap(&TABLE, &bytes).unwrap().ct_eq(&secret));
    assert_eq!(master.version_of(&bytes).unwrap(), "k@3");
    for other in [
        KeyContext::Table(TableId([2; 16])),
        KeyContext::Link(LinkId([1; 16])),
    ] {
        assert!(
            matches!(master.unwrap(&other, &bytes), Err(MasterError::Altered(_))),
            "{other}"
        );
    }
}

/// Every byte counts: lengths, wrapped data key, check value, blob. The version's name steers the
/// KMS alone, and this one has none.
#[test]
fn no_altered_byte_opens() {
    let (_, bytes) = wrapped();
    for at in 0..bytes.len() {
        let mut altered = bytes.clone();
        altered[at] ^= 1;
        match Envelope(Fixed).unwrap(&TABLE, &altered) {
            Err(MasterError::Altered(_) | MasterError::Malformed(_)) => {}
            Err(error) => panic!("byte {at}: {error}"),
            // The fixed KMS looks at the first byte of its wrapped form alone.
            Ok(_) => assert!((4..7).contains(&at) || (12..14).contains(&at), "byte {at}"),
        }
    }
    for length in 0..bytes.len() {
        assert!(
            Envelope(Fixed).unwrap(&TABLE, &bytes[..length]).is_err(),
            "{length}"
        );
    }
}

#[test]
fn lengths_are_bounded() {
    let mut writer = Writer::with_capacity(16);
    writer
        .string(&vec![b'v'; MAX_VERSION + 1])
        .string(b"x")
        .raw(&[0; 80]);
    assert!(matches!(
        Envelope(Fixed).unwrap(&TABLE, &writer.finish()),
        Err(MasterError::Malformed(_))
    ));
    let mut writer = Writer::with_capacity(16);
    writer
        .string(b"v")
        .string(&vec![0; MAX_WRAPPED + 1])
        .raw(&[0; 80]);
    assert!(matches!(
        Envelope(Fixed).unwrap(&TABLE, &writer.finish()),
        Err(MasterError::Malformed(_))
    ));
}

/// A KMS that renews to what these bytes are.
struct Renewing(Vec<u8>);

impl DataKeys for Renewing {
    fn describe(&self) -> String {
        "renewing".into()
    }

    fn generate(&self, context: &KeyContext) -> Result<DataKey, MasterError> {
        Fixed.generate(context)
    }

    fn open(
        &self,
        context: &KeyContext,
        wrapped: &WrappedDataKey,
    ) -> Result<Secret<32>, MasterError> {
        Fixed.open(context, wrapped)
    }

    fn renew(
        &self,
        _: &KeyContext,
        _: &WrappedDataKey,
    ) -> Result<Option<WrappedDataKey>, MasterError> {
        Ok(Some(WrappedDataKey {
            version: "k@4".into(),
            bytes: self.0.clone(),
        }))
    }

    fn state(&self) -> Result<MasterState, MasterError> {
        Fixed.state()
    }
}

#[test]
fn a_renewed_data_key_is_taken_only_if_it_opens_what_the_old_one_sealed() {
    let (secret, bytes) = wrapped();
    let renewed = Renewing(vec![1, 9]).rewrap_of(&bytes).unwrap();
    assert_eq!(Envelope(Fixed).version_of(&renewed).unwrap(), "k@4");
    assert!(
        Envelope(Fixed)
            .unwrap(&TABLE, &renewed)
            .unwrap()
            .ct_eq(&secret)
    );
    assert!(matches!(
        Renewing(vec![2, 9]).rewrap_of(&bytes),
        Err(MasterError::Altered(_))
    ));
}

impl Renewing {
    fn rewrap_of(self, bytes: &[u8]) -> Result<Vec<u8>, MasterError> {
        Envelope(self).rewrap(&TABLE, bytes)
    }
}
