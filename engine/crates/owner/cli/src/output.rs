//! Progress, tables of text, sizes.

use std::time::{Duration, Instant};

use coffer_catalog::VerifiedManifest;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

/// A bar on stderr; indicatif hides it when that is not a terminal.
pub(crate) fn progress(total: u64, what: &str, bytes: bool) -> ProgressBar {
    let bar = ProgressBar::new(total);
    let counts = if bytes {
        "{bytes}/{total_bytes}"
    } else {
        "{human_pos}/{human_len} rows"
    };
    let template = format!("{{msg}} {{wide_bar}} {counts} {{eta}}");
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar.set_message(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Rows of cells in columns, the first row a heading.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// 1536 → "1.5 KiB"
pub(crate) fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// What a command says of the version of a table that it made; `more`: an object whose fields go
/// into the JSON too.
pub(crate) fn made(
    as_json: bool,
    done: &str,
    name: &str,
    sealed: &VerifiedManifest,
    started: Instant,
    more: Value,
) {
    let manifest = sealed.manifest();
    let (rows, files, columns) = (
        manifest.rows(),
        manifest.files.len(),
        manifest.columns.len(),
    );
    if !as_json {
        let size = size(manifest.bytes());
        println!("{done} `{name}`: {rows} rows, {columns} columns, {files} files, {size}");
        return;
    }
    let mut object = json!({
        "name": name,
        "table": manifest.table.to_string(),
        "version": manifest.version,
        "path": sealed.folder(),
        "master": sealed.master(),
        "rows": rows,
        "bytes": manifest.bytes(),
        "files": files,
        "columns": columns,
        "seconds": started.elapsed().as_secs_f64(),
    });
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    json(&object);
}

pub(crate) fn json(value: &Value) {
    println!("{value:#}");
}
