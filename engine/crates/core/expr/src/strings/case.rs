//! Upper, lower and title case, as Spark has them of ICU: the full mappings of Unicode 16.

/// Letters that have a case since Unicode 17, which Spark's ICU does not know.
fn is_new(c: char) -> bool {
    matches!(
        c,
        '\u{a7ce}'..='\u{a7cf}'
            | '\u{a7d2}'..='\u{a7d5}'
            | '\u{16ea0}'..='\u{16eb8}'
            | '\u{16ebb}'..='\u{16ed3}'
    )
}

pub(super) fn upper(text: &str, out: &mut String) {
    if text.is_ascii() {
        let from = out.len();
        out.push_str(text);
        if let Some(new) = out.get_mut(from..) {
            new.make_ascii_uppercase();
        }
    } else {
        mapped(text, out, str::to_uppercase);
    }
}

pub(super) fn lower(text: &str, out: &mut String) {
    if text.is_ascii() {
        let from = out.len();
        out.push_str(text);
        if let Some(new) = out.get_mut(from..) {
            new.make_ascii_lowercase();
        }
    } else {
        mapped(text, out, str::to_lowercase);
    }
}

/// The letters that are left alone part what is mapped.
fn mapped(text: &str, out: &mut String, map: impl Fn(&str) -> String) {
    let mut rest = text;
    while let Some((at, new)) = rest.char_indices().find(|(_, c)| is_new(*c)) {
        let (before, behind) = rest.split_at(at);
        out.push_str(&map(before));
        out.push(new);
        rest = behind.get(new.len_utf8()..).unwrap_or_default();
    }
    out.push_str(&map(rest));
}

/// Words are what spaces separate: the first character in title case, the rest in lower case.
pub(super) fn init_cap(text: &str, out: &mut String) {
    if text.is_ascii() {
        let mut at_start = true;
        out.extend(text.chars().map(|c| {
            let starts = std::mem::replace(&mut at_start, c == ' ');
            match starts {
                true => c.to_ascii_uppercase(),
                false => c.to_ascii_lowercase(),
            }
        }));
        return;
    }
    for (at, word) in text.split(' ').enumerate() {
        if at > 0 {
            out.push(' ');
        }
        let Some(first) = word.chars().next() else {
            continue;
        };
        title(first, out);
        // In lower case with the first, which a sigma asks for.
        let from = out.len();
        lower(word, out);
        let of_first: usize = match is_new(first) {
            true => first.len_utf8(),
            false => first.to_lowercase().map(char::len_utf8).sum(),
        };
        out.drain(from..from + of_first);
    }
}

/// Where it is not upper case: letters that stand for two or three, and Georgian, which has none.
fn title(c: char, out: &mut String) {
    match c {
        'Ǆ'..='ǆ' => out.push('ǅ'),
        'Ǉ'..='ǉ' => out.push('ǈ'),
        'Ǌ'..='ǌ' => out.push('ǋ'),
        'Ǳ'..='ǳ' => out.push('ǲ'),
        'ა'..='ჺ' | 'ჽ'..='ჿ' => out.push(c),
        // Greek with an iota below: the capital has it beside.
        '\u{1f80}'..='\u{1faf}' => out.extend(char::from_u32(u32::from(c) | 8)),
        '\u{1fb3}' | '\u{1fbc}' => out.push('\u{1fbc}'),
        '\u{1fc3}' | '\u{1fcc}' => out.push('\u{1fcc}'),
        '\u{1ff3}' | '\u{1ffc}' => out.push('\u{1ffc}'),
        // An apostrophe and an N.
        'ŉ' => out.extend(c.to_uppercase()),
        _ if is_new(c) => out.push(c),
        _ => {
            let mut upper = c.to_uppercase();
            out.extend(upper.next());
            for further in upper {
                match further {
                    'Ι' => out.push('\u{345}'),
                    further => out.extend(further.to_lowercase()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(map: impl Fn(&str, &mut String), text: &str) -> String {
        let mut out = String::new();
        map(text, &mut out);
        out
    }

    #[test]
    fn first_letters_are_in_title_case() {
        for (text, title) in [
            ("", ""),
            ("sPARK  sql", "Spark  Sql"),
            ("ß ﬃx ǆa ნა ᾳ ᾲ ŉ", "Ss Ffix ǅa ნა ᾼ Ὰͅ ʼN"),
            ("ϴ ΣΑΣ ΣΑΣΑ Σ İİ", "ϴ Σας Σασα Σ İi̇"),
            (" é", " É"),
        ] {
            assert_eq!(of(init_cap, text), title);
        }
    }

    #[test]
    fn letters_of_unicode_17_stay() {
        let text = "a\u{a7ce}Ä\u{a7cf}\u{16ea0}\u{16ed3}";
        assert_eq!(of(upper, text), "A\u{a7ce}Ä\u{a7cf}\u{16ea0}\u{16ed3}");
        assert_eq!(of(lower, text), "a\u{a7ce}ä\u{a7cf}\u{16ea0}\u{16ed3}");
        assert_eq!(of(init_cap, "\u{a7cf}A"), "\u{a7cf}a");
    }
}
