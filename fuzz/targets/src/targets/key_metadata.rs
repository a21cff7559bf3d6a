//! Key metadata of Parquet files, and the data keys wrapped in it.

use coffer_format::{Error, KeyMaterial, pme::KekSource};
use coffer_sealing::{ColumnId, KekId};

use super::{cut, replaced, seed};
use crate::{
    Outcome, Seed, Target,
    fixture::{TABLE_KEY, keks},
    outcome,
};

pub(super) const TARGET: Target = Target {
    name: "key_metadata",
    about: "key metadata of Parquet files and the data keys in it",
    memory: |input| 8 * input + (64 << 10),
    smoke: 20_000,
    run,
    seeds,
};

fn run(input: &[u8]) -> Outcome {
    outcome(read(input))
}

fn read(input: &[u8]) -> Result<usize, Error> {
    let material = KeyMaterial::parse(input)?;
    Ok(keks().data_key(&material)?.len())
}

fn seeds() -> Vec<Seed> {
    let kek = TABLE_KEY.kek(ColumnId(1)).unwrap();
    let id = KekId::column(TABLE_KEY.table(), ColumnId(1)).to_string();
    let wrapped = kek.wrap(&[5; 32]).unwrap();
    let text = |id: &str, wrapped: &str| {
        format!(
            r#"{{"keyMaterialType":"PKMT1","internalStorage":true,"isFooterKey":false,
                "masterKeyID":"{id}","wrappedDEK":"{wrapped}","doubleWrapping":false}}"#
        )
    };
    let good = text(&id, &wrapped);
    let changed = |from: &str, to: &str| replaced(&good, from, to);
    vec![
        seed("column", good.clone()),
        seed("short_data_key", text(&id, &kek.wrap(&[5; 16]).unwrap())),
        seed("nothing", []),
        seed("text_cut", cut(good.as_bytes(), 4)),
        seed("too_long", format!("{good}{}", " ".repeat(16 << 10))),
        seed("type_unknown", changed("PKMT1", "PKMT2")),
        seed(
            "material_outside",
            changed("\"internalStorage\":true", "\"internalStorage\":false"),
        ),
        seed(
            "wrapped_twice",
            changed("\"doubleWrapping\":false", "\"doubleWrapping\":true"),
        ),
        seed(
            "kek_of_another_table",
            text(&format!("{}{}", "0".repeat(32), ".1"), &wrapped),
        ),
        seed(
            "kek_not_held",
            text(&format!("{}.9", TABLE_KEY.table()), &wrapped),
        ),
        seed(
            "kek_id_spelled_otherwise",
            text(&format!("{}.01", TABLE_KEY.table()), &wrapped),
        ),
        seed("kek_id_too_long", text(&"9".repeat(2000), &wrapped)),
        seed("wrapped_not_base64", text(&id, "***")),
        seed("wrapped_too_short", text(&id, "AAAA")),
        seed("wrapped_empty", text(&id, "")),
        seed("wrapped_too_long", text(&id, &"A".repeat(4000))),
        seed(
            "wrapped_for_another_column",
            text(
                &id,
                &TABLE_KEY.kek(ColumnId(2)).unwrap().wrap(&[5; 32]).unwrap(),
            ),
        ),
        seed("nested_deep", "[".repeat(400)),
        seed(
            "field_twice",
            changed(
                "\"isFooterKey\":false",
                "\"isFooterKey\":false,\"isFooterKey\":true",
            ),
        ),
    ]
}
