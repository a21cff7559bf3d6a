//! The table of the protections (`coffer-schemes`) as people and programs read it.

use coffer_schemes::{
    Leakage,
    table::{Row, TABLE, Treatment},
};
use serde_json::{Value, json};

/// Bytes of a BIGINT.
const BIGINT: u32 = 8;

/// As Markdown.
pub(super) fn text() -> String {
    let mut text = String::from(
        "| protection | stored as | bytes for a BIGINT | the host learns | the host can compute | \
            source |\n\
         |---|---|---|---|---|---|\n",
    );
    for row in TABLE {
        let learns = both(row, |treatment| {
            treatment.shows.iter().map(|shown| shown.words()).collect()
        });
        let computes = both(row, |treatment| {
            let words = treatment.allows.iter().flat_map(|allowed| allowed.words());
            words.copied().collect()
        });
        text.push_str(&format!(
            "| `{}` | {} | {} | {learns} | {computes} | {} |\n",
            row.name,
            row.stored,
            bytes(row),
            row.source
        ));
    }
    text
}

/// What is said of numbers; and of texts, where it is something else.
fn both(row: &Row, of: impl Fn(Treatment) -> Vec<&'static str>) -> String {
    let words = |treatment| match of(treatment).as_slice() {
        [] => "nothing".to_owned(),
        words => words.join("; "),
    };
    let numbers = words(row.numbers);
    match row.texts.map(words) {
        Some(texts) if texts != numbers => format!("{numbers}. Of texts: {texts}"),
        _ => numbers,
    }
}

fn bytes(row: &Row) -> String {
    let wide = (BIGINT.saturating_mul(row.cost.times)).saturating_add(row.cost.plus);
    match row.cost.narrow {
        Some(narrow) => format!("{narrow} or {wide}"),
        None => wide.to_string(),
    }
}

/// For programs: the rows from what shows least.
pub(super) fn json() -> Value {
    let leakages = Leakage::ALL.map(|shown| (shown.code().to_owned(), json!(shown.words())));
    let rows = TABLE.map(|row| {
        json!({
            "name": row.name,
            "numbers": treatment(row.numbers),
            "texts": row.texts.map(treatment),
            "settings": row.settings.iter().map(|setting| setting.name()).collect::<Vec<_>>(),
            "placed": row.needs_position,
            "cost": {
                "encrypt": row.cost.encrypt,
                "open": row.cost.open,
                "repeated": row.cost.repeated,
                "times": row.cost.times,
                "plus": row.cost.plus,
                "narrow": row.cost.narrow,
            },
        })
    });
    json!({ "protections": rows, "leakages": serde_json::Map::from_iter(leakages) })
}

fn treatment(of: Treatment) -> Value {
    json!({
        "shows": of.shows.iter().map(|shown| shown.code()).collect::<Vec<_>>(),
        "allows": of.allows.iter().map(|allowed| allowed.code()).collect::<Vec<_>>(),
        "opened_by": of.opened_by.code(),
    })
}
