//! A path as it is typed. Every argument that names a file or folder is one, and may be a URL where
//! it names a table: so that elsewhere `s3a://bucket/t` is refused before a command begins; else it
//! would be a folder `s3a:` below the working directory.

use std::{
    ffi::OsString,
    ops::Deref,
    path::{Path, PathBuf},
};

use clap::builder::{OsStringValueParser, TypedValueParser, ValueParserFactory};
use coffer_custody::location::{local_path, path_of};

/// A path of this machine, with `file:` taken off. Only [`LocalPath::typed`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalPath(PathBuf);

impl LocalPath {
    pub(crate) fn typed(text: OsString) -> Result<Self, String> {
        let path = PathBuf::from(text);
        match local_path(&path) {
            Ok(path) => Ok(Self(path.to_path_buf())),
            Err(error) => Err(format!("{error}\nhint: {}", error.hint())),
        }
    }
}

impl Deref for LocalPath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for LocalPath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl ValueParserFactory for LocalPath {
    type Parser = clap::builder::ValueParser;

    fn value_parser() -> Self::Parser {
        OsStringValueParser::new().try_map(Self::typed).into()
    }
}

/// A table's folder: a path of this machine with `file:` taken off, or the URL of a store by the
/// name that it has in the register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TablePath(PathBuf);

impl TablePath {
    pub(crate) fn typed(text: OsString) -> Result<Self, String> {
        match path_of(Path::new(&text)) {
            Ok(path) => Ok(Self(path)),
            Err(error) => Err(format!("{error}\nhint: {}", error.hint())),
        }
    }
}

impl Deref for TablePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl AsRef<Path> for TablePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl ValueParserFactory for TablePath {
    type Parser = clap::builder::ValueParser;

    fn value_parser() -> Self::Parser {
        OsStringValueParser::new().try_map(Self::typed).into()
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, builder::ValueParser};

    use super::*;
    use crate::args::Cli;

    fn arguments(command: &clap::Command, found: &mut Vec<(String, ValueParser)>) {
        for argument in command.get_arguments() {
            let name = format!("{} {}", command.get_name(), argument.get_id());
            found.push((name, argument.get_value_parser().clone()));
        }
        command
            .get_subcommands()
            .for_each(|command| arguments(command, found));
    }

    #[test]
    fn every_path_that_can_be_typed_is_one() {
        let mut found = Vec::new();
        arguments(&Cli::command(), &mut found);
        let of = |parser: ValueParser| {
            let is = |(name, own): &(String, ValueParser)| {
                (own.type_id() == parser.type_id()).then(|| name.clone())
            };
            found.iter().filter_map(is).collect::<Vec<_>>()
        };
        assert_eq!(of(clap::value_parser!(PathBuf)), Vec::<String>::new());
        assert!(of(clap::value_parser!(LocalPath)).len() > 20);
    }

    #[test]
    fn a_scheme_is_refused_and_file_is_taken_off() {
        assert_eq!(
            &*LocalPath::typed("file:/a/b".into()).unwrap(),
            Path::new("/a/b")
        );
        assert_eq!(&*LocalPath::typed("-".into()).unwrap(), Path::new("-"));
        assert!(
            LocalPath::typed("s3a://b/t".into())
                .unwrap_err()
                .contains("s3a")
        );
        assert_eq!(
            &*TablePath::typed("s3://b//t/".into()).unwrap(),
            Path::new("s3a://b/t")
        );
        assert_eq!(
            &*TablePath::typed("file:/a/b".into()).unwrap(),
            Path::new("/a/b")
        );
        assert!(TablePath::typed("jar:file:/a!/b".into()).is_err());
    }
}
