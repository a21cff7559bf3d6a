//! A table's manifest. The first byte says how: 0 the file's bytes; else the content, sealed here
//! under the table's key.

use coffer_catalog::{Error, Manifest, manifest_name};
use coffer_format::{Adopted, AdoptedKey, Digest, FilePin, RowGroupPin};

use super::{cut, replaced, seed, with};
use crate::{
    Outcome, Seed, Target,
    fixture::{TABLE_KEY, columns},
    outcome,
};

pub(super) const TARGET: Target = Target {
    name: "manifest",
    about: "manifests: the envelope, and what is sealed in it",
    memory: |input| 256 * input + (256 << 10),
    smoke: 20_000,
    run,
    seeds,
};

fn run(input: &[u8]) -> Outcome {
    match input.split_first() {
        None => "Nothing".to_owned(),
        Some((0, file)) => outcome(open(file)),
        Some((_, content)) => outcome(open(&sealed(content))),
    }
}

fn open(file: &[u8]) -> Result<(), Error> {
    let manifest = Manifest::open(file, &TABLE_KEY)?;
    // What callers do with it.
    manifest.schema();
    manifest.column_bytes();
    let _ = manifest_name(manifest.version);
    manifest.partitioned_by().count();
    Ok(())
}

/// A manifest file of any content, made as [`Manifest::seal`] makes it.
fn sealed(content: &[u8]) -> Vec<u8> {
    let mut file = b"CFTM\x01\x00".to_vec();
    file.extend_from_slice(TABLE_KEY.table().as_bytes());
    file.extend_from_slice(&1_u64.to_le_bytes());
    file.extend_from_slice(&TABLE_KEY.key_check().unwrap());
    file.extend_from_slice(&4_u16.to_le_bytes());
    file.extend_from_slice(b"main");
    let blob = TABLE_KEY
        .manifest_key()
        .unwrap()
        .seal(1, &file, content)
        .unwrap();
    file.extend_from_slice(&blob);
    file
}

fn manifest_text() -> String {
    let digest = "ab".repeat(32);
    let columns = r#"[{"id":1,"name":"a","type":"bigint","nullable":true,"protection":"tee"},
        {"id":2,"name":"s","type":"string","nullable":true,"protection":"tee"}]"#;
    let file = format!(
        r#"{{"path":"part-1.parquet","size":900,"rows":80,"aad_prefix":"{}","footer_length":400,
            "footer_sha256":"{digest}","row_groups":[{{"rows":40,"bytes":200}},
            {{"rows":40,"bytes":200}}],"column_bytes":[200,200]}}"#,
        "0a".repeat(16),
    );
    format!(
        r#"{{"table":"{}","version":1,"parent":null,"columns":{columns},"files":[{file}]}}"#,
        TABLE_KEY.table(),
    )
}

/// Of a file that another program wrote.
fn adopted_text() -> String {
    let key = |column: u32, digest: &str| {
        format!(
            r#"{{"column":{column},"metadata":"{}","wrapped":"AAAA"}}"#,
            digest.repeat(32)
        )
    };
    let prefix = format!("\"aad_prefix\":\"{}\"", "0a".repeat(16));
    let keys = [key(0, "c0"), key(1, "c1")].join(",");
    let adopted = format!(r#""aad_prefix":"","adopted":{{"clear_footer":false,"keys":[{keys}]}}"#);
    replaced(&manifest_text(), &prefix, &adopted)
}

/// A manifest as the crate itself writes it.
fn written() -> Vec<u8> {
    let mut manifest = Manifest::open(&sealed(manifest_text().as_bytes()), &TABLE_KEY).unwrap();
    manifest.columns = columns();
    manifest.files.push(FilePin {
        path: "part-2.parquet".to_owned(),
        size: 10,
        rows: 1,
        aad_prefix: vec![],
        footer_length: 5,
        footer_sha256: Digest::of(b"x"),
        row_groups: vec![RowGroupPin { rows: 1, bytes: 1 }],
        column_bytes: vec![1, 0],
        chunks: vec![],
        adopted: Some(Adopted {
            clear_footer: true,
            keys: vec![AdoptedKey {
                column: 0,
                metadata: Digest::of(b"footer"),
                wrapped: TABLE_KEY.footer_kek().unwrap().wrap(&[1; 16]).unwrap(),
            }],
        }),
        partition: vec![],
        host_chosen: true,
    });
    manifest.seal("main", &TABLE_KEY).unwrap()
}

fn seeds() -> Vec<Seed> {
    let text = manifest_text();
    let content = |text: &str| [&[1], text.as_bytes()].concat();
    let changed = |from: &str, to: &str| content(&replaced(&text, from, to));
    let adopted = adopted_text();
    let adopted_with = |from: &str, to: &str| content(&replaced(&adopted, from, to));
    let file = [&[0][..], &written()].concat();
    vec![
        seed("content_adopted", content(&adopted)),
        seed(
            "content_adopted_no_footer_key",
            adopted_with("\"column\":0", "\"column\":2"),
        ),
        seed(
            "content_adopted_two_keys_of_a_column",
            adopted_with("\"column\":1", "\"column\":0"),
        ),
        seed(
            "content_adopted_metadata_twice",
            adopted_with(&"c1".repeat(32), &"c0".repeat(32)),
        ),
        seed(
            "content_adopted_key_of_no_column",
            adopted_with("\"column\":1", "\"column\":7"),
        ),
        seed(
            "content_adopted_unknown_field",
            adopted_with("\"clear_footer\"", "\"x\":0,\"clear_footer\""),
        ),
        seed(
            "content_adopted_digest_short",
            adopted_with(&"c1".repeat(32), "c1"),
        ),
        seed("file", file.clone()),
        seed("content", content(&text)),
        seed("nothing", []),
        seed("file_empty", [0]),
        seed("file_magic", with(&file, 1, b"CFRG")),
        seed("file_format_unknown", with(&file, 5, &[2])),
        seed("file_another_table", with(&file, 7, &[9])),
        seed("file_another_version", with(&file, 23, &[2])),
        seed("file_key_check_flipped", with(&file, 31, &[file[31] ^ 1])),
        seed("file_master_beyond_the_end", with(&file, 47, &[0xff, 0xff])),
        seed("file_master_not_utf8", with(&file, 49, &[0xff])),
        seed("file_master_changed", with(&file, 49, b"n")),
        seed("file_blob_flipped", with(&file, 80, &[file[80] ^ 1])),
        seed("file_cut", cut(&file, 1)),
        seed("content_empty", [1]),
        seed("content_cut", cut(&content(&text), 5)),
        seed("content_nested_deep", [&[1][..], &[b'['; 300]].concat()),
        seed(
            "content_another_table",
            changed("\"table\":\"02", "\"table\":\"03"),
        ),
        seed(
            "content_another_version",
            changed("\"version\":1", "\"version\":2"),
        ),
        seed(
            "content_unknown_field",
            changed("\"version\":1", "\"version\":1,\"x\":0"),
        ),
        seed(
            "content_path_goes_up",
            changed("part-1.parquet", "../part-1"),
        ),
        seed(
            "content_path_is_hidden",
            changed("part-1.parquet", ".part-1"),
        ),
        seed(
            "content_rows_disagree",
            changed("\"rows\":80", "\"rows\":81"),
        ),
        seed(
            "content_rows_overflow",
            changed("\"rows\":40", "\"rows\":18446744073709551615"),
        ),
        seed(
            "content_rows_negative",
            changed("\"rows\":40", "\"rows\":-1"),
        ),
        seed(
            "content_column_twice",
            changed("\"name\":\"s\"", "\"name\":\"A\""),
        ),
        seed("content_column_id_twice", changed("\"id\":2", "\"id\":1")),
        seed(
            "content_column_plain",
            changed("\"protection\":\"tee\"", "\"protection\":\"plain\""),
        ),
        seed("content_type_unknown", changed("bigint", "bigger")),
        seed("content_digest_short", changed(&"ab".repeat(32), "ab")),
        seed(
            "content_partition_unknown",
            changed("\"files\"", "\"partition_columns\":[7],\"files\""),
        ),
        seed(
            "content_sizes_overflow",
            changed("\"size\":900", "\"size\":18446744073709551615"),
        ),
    ]
}
