//! Shares come back to the byte, or say why not.

use coffer_sealing::LinkId;

use super::*;
use crate::{LinkKey, Passphrase};

struct Made {
    _folder: tempfile::TempDir,
    keyring: Keyring,
    shares: Vec<Share>,
}

fn made(scheme: &str) -> Made {
    let folder = tempfile::tempdir().unwrap();
    let keyring =
        Keyring::create(&folder.path().join("k"), &Passphrase::new("p").unwrap()).unwrap();
    keyring.rotate("main").unwrap();
    let shares = split(&keyring, scheme.parse().unwrap()).unwrap();
    Made {
        _folder: folder,
        keyring,
        shares,
    }
}

/// By way of the text, as people do.
fn typed(share: &Share) -> Share {
    Share::from_text(&share.to_text()).unwrap()
}

#[test]
fn any_three_of_five_give_it_back_to_the_byte() {
    let made = made("3-of-5");
    assert_eq!(made.shares.len(), 5);
    for choice in choices(5, 3) {
        let chosen: Vec<Share> = choice.iter().map(|at| typed(&made.shares[*at])).collect();
        let joined = join(&chosen).unwrap();
        assert_eq!(joined.masters().unwrap(), made.keyring.masters().unwrap());
        assert!(made.keyring.is_whole_in(&joined).unwrap());
    }
    let all: Vec<Share> = made.shares.iter().map(typed).collect();
    let link = LinkKey::generate(LinkId([1; 16])).unwrap();
    let wrapped = made.keyring.wrap_link("main", &link).unwrap();
    let register = made.keyring.register_key().seal(b"register").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recovered");
    let recovered = join(&all).unwrap();
    let recovered = recovered
        .create_keyring(&path, &Passphrase::new("new").unwrap())
        .unwrap();
    assert_eq!(recovered.owner_public(), made.keyring.owner_public());
    assert_eq!(
        recovered.register_key().open(&register).unwrap(),
        b"register"
    );
    recovered.unwrap_link(&wrapped).unwrap();
    assert!(recovered.is_whole_in(&join(&all).unwrap()).unwrap());
}

#[test]
fn too_few_mixed_and_twice() {
    let (one, two) = (made("3-of-5"), made("3-of-5"));
    assert!(matches!(join(&[]), Err(RecoveryError::None)));
    let few = join(&one.shares[..2]);
    assert!(matches!(
        few,
        Err(RecoveryError::TooFew {
            have: 2,
            need: 3,
            of: 5
        })
    ));
    let mixed = [&one.shares[..2], &two.shares[2..3]].concat();
    assert!(matches!(join(&mixed), Err(RecoveryError::Mixed { .. })));
    let twice = [&one.shares[..2], &one.shares[..1]].concat();
    assert!(matches!(join(&twice), Err(RecoveryError::Twice(1))));
    // Of one keyring, but of two splittings.
    let again = split(&one.keyring, "3-of-5".parse().unwrap()).unwrap();
    let mixed = [&one.shares[..2], &again[2..3]].concat();
    assert!(matches!(join(&mixed), Err(RecoveryError::Mixed { .. })));
}

#[test]
fn altered_shares_are_found_out() {
    let made = made("3-of-5");
    let text = made.shares[0].to_text();
    let line = text
        .lines()
        .position(|line| line.starts_with("   2  "))
        .unwrap();
    let slip = |change: &dyn Fn(&str) -> String| {
        let lines = text.lines().enumerate();
        let changed: Vec<String> = lines
            .map(|(at, text)| {
                if at == line {
                    change(text)
                } else {
                    text.to_owned()
                }
            })
            .collect();
        Share::from_text(&changed.join("\n")).map(|_| ())
    };
    slip(&str::to_owned).unwrap();
    let swapped = |text: &str| {
        let other = if text.as_bytes()[8] == b'A' { "B" } else { "A" };
        format!("{}{other}{}", &text[..8], &text[9..])
    };
    // A line's check has two bytes: one slip in 65,536 is found by the checksum of the whole.
    assert!(matches!(
        slip(&swapped),
        Err(RecoveryError::Line(2) | RecoveryError::Checksum)
    ));
    assert!(matches!(
        slip(&|_| String::new()),
        Err(RecoveryError::LineMissing(2))
    ));
    let cut: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("Checksum"))
        .collect();
    assert!(matches!(
        Share::from_text(&cut.join("\n")),
        Err(RecoveryError::Malformed(_))
    ));
    assert!(matches!(
        Share::from_text("nothing"),
        Err(RecoveryError::Malformed(_))
    ));
    // The last line left out: the rest is fine line by line.
    let numbered = text.lines().filter(|line| line.starts_with("  ")).count();
    let last = format!("{numbered:>4}  ");
    let cut: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with(&last))
        .collect();
    assert!(matches!(
        Share::from_text(&cut.join("\n")),
        Err(RecoveryError::Checksum | RecoveryError::Malformed(_))
    ));

    // One that was altered by somebody who mended its checks.
    let mut bytes = made.shares[1].to_bytes().to_vec();
    bytes[30] ^= 1;
    let altered = typed(&Share::from_bytes(&bytes).unwrap());
    let three = [
        made.shares[0].clone(),
        altered.clone(),
        made.shares[2].clone(),
    ];
    assert!(matches!(
        join(&three),
        Err(RecoveryError::Unfit { have: 3 })
    ));
    // With one more it is left out.
    let four = [&three[..], &made.shares[3..4]].concat();
    assert_eq!(
        join(&four).unwrap().masters().unwrap(),
        made.keyring.masters().unwrap()
    );
    // Its snapshot altered: it is none of the set.
    let at = bytes.len() - 1;
    bytes[at] ^= 1;
    assert!(matches!(
        Share::from_bytes(&bytes),
        Err(RecoveryError::Malformed(_))
    ));
}

#[test]
fn schemes() {
    for bad in ["1-of-5", "6-of-5", "3of5", "3-of-256", "-of-", "0-of-0", ""] {
        assert!(
            matches!(bad.parse::<Scheme>(), Err(RecoveryError::Scheme)),
            "{bad}"
        );
    }
    assert_eq!(
        "255-of-255".parse::<Scheme>().unwrap().to_string(),
        "255-of-255"
    );
    assert_eq!(choices(5, 3).count(), 10);
    assert_eq!(choices(3, 3).count(), 1);
    assert_eq!(choices(2, 3).count(), 0);
}

proptest::proptest! {
    #[test]
    fn any_text_and_any_bytes_are_read_or_refused(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
        text in "[ 0-9A-Za-z+/=\n]{0,300}",
    ) {
        let _ = Share::from_bytes(&bytes);
        let _ = Share::from_bytes(&[b"CFSH\x01", bytes.as_slice()].concat());
        let _ = Share::from_text(&text);
        let _ = Share::from_text(&format!("1 {text}\nChecksum 00"));
    }
}
