//! `spark-defaults.conf`: a Java properties file, of which Spark takes the keys that begin with
//! `spark.`.

/// The settings in the file's order. Nothing is an error, as in Java: what makes no sense is some
/// key or value.
pub(crate) fn parse(text: &str) -> Vec<(String, String)> {
    let mut settings = Vec::new();
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        let first = first.trim_start();
        if first.is_empty() || first.starts_with(['#', '!']) {
            continue;
        }
        let mut line = first.to_owned();
        while goes_on(&line) {
            line.pop();
            let Some(next) = lines.next() else { break };
            line.push_str(next.trim_start());
        }
        let (key, value) = split(&line);
        if key.starts_with("spark.") {
            settings.push((key, value.trim().to_owned()));
        }
    }
    settings
}

/// A line that ends in an odd number of backslashes.
fn goes_on(line: &str) -> bool {
    line.chars()
        .rev()
        .take_while(|letter| *letter == '\\')
        .count()
        % 2
        == 1
}

/// Key and value: the first `=`, `:` or blank that is not escaped ends the key; one `=` or `:`
/// among blanks belongs to neither.
fn split(line: &str) -> (String, String) {
    let mut letters = line.chars();
    let mut key = String::new();
    let mut parted = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => key.extend(unescaped(&mut letters)),
            '=' | ':' => {
                parted = true;
                break;
            }
            blank if blank.is_whitespace() => break,
            other => key.push(other),
        }
    }
    let mut rest = letters.as_str().trim_start();
    if !parted && let Some(after) = rest.strip_prefix(['=', ':']) {
        rest = after.trim_start();
    }
    let mut letters = rest.chars();
    let mut value = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => value.extend(unescaped(&mut letters)),
            other => value.push(other),
        }
    }
    (key, value)
}

/// What follows a backslash.
fn unescaped(letters: &mut std::str::Chars<'_>) -> Option<char> {
    match letters.next()? {
        't' => Some('\t'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        'f' => Some('\u{c}'),
        'u' => {
            let code: String = letters.take(4).collect();
            u32::from_str_radix(&code, 16).ok().and_then(char::from_u32)
        }
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn parsed(text: &str) -> Vec<(String, String)> {
        parse(text)
    }

    #[test]
    fn as_java_reads_them() {
        let text = "# no\n! no\n\n  spark.a   one two \nspark.b=2\nspark.c : 3\nspark.d\nother.e \
            5\n\
            spark.f a,\\\n     b\nspark.g=x\\=\\u0041\\\\\nspark.h\t=\ty\n";
        let want = [
            ("spark.a", "one two"),
            ("spark.b", "2"),
            ("spark.c", "3"),
            ("spark.d", ""),
            ("spark.f", "a,b"),
            ("spark.g", "x=A\\"),
            ("spark.h", "y"),
        ];
        assert_eq!(
            parsed(text),
            want.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
    }

    #[test]
    fn whatever_it_is_it_ends() {
        for text in [
            "\\",
            "spark.a \\",
            "spark.\\u12",
            "=\\",
            "spark.a=\\u",
            "spark.a\\",
        ] {
            parsed(text);
        }
    }
}
