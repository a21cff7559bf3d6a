//! How name services of HDFS are written in Hadoop's configuration: their names are parts of its
//! keys.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use roxmltree::{Document, ParsingOptions};

const SERVICES: &str = "dfs.nameservices";

/// A name service as the configuration has it, where one differs in capitals alone; else as it is.
/// Of two such none is picked.
pub(crate) fn as_configured(authority: &str) -> String {
    let folder = env::var_os("HADOOP_CONF_DIR").map(PathBuf::from);
    let home = || Some(Path::new(&env::var_os("HADOOP_HOME")?).join("etc/hadoop"));
    match folder.or_else(home) {
        Some(folder) => among(authority, &services(&folder)),
        None => authority.to_owned(),
    }
}

fn among(authority: &str, services: &[String]) -> String {
    let mut same: Vec<_> = services
        .iter()
        .filter(|service| service.eq_ignore_ascii_case(authority))
        .collect();
    same.dedup();
    match same.as_slice() {
        [one] => (*one).clone(),
        _ => authority.to_owned(),
    }
}

/// Of the last file that names them, as Hadoop reads its files.
fn services(folder: &Path) -> Vec<String> {
    let files = ["hdfs-site.xml", "core-site.xml"].map(|name| folder.join(name));
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    texts
        .filter_map(|text| in_text(&text))
        .next()
        .unwrap_or_default()
}

fn in_text(text: &str) -> Option<Vec<String>> {
    // What cannot be read, the client says when it reads it.
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).ok()?;
    let properties = document
        .descendants()
        .filter(|node| node.has_tag_name("property"));
    let of = |property: roxmltree::Node<'_, '_>, tag: &str| {
        let node = property.children().find(|node| node.has_tag_name(tag))?;
        node.text().map(|text| text.trim().to_owned())
    };
    let value = properties
        .filter(|property| of(*property, "name").as_deref() == Some(SERVICES))
        .filter_map(|property| of(property, "value"))
        .next_back()?;
    let names = value.split(',').map(|name| name.trim().to_owned());
    Some(names.filter(|name| !name.is_empty()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_service_is_reached_as_it_is_configured() {
        let text = "<?xml version=\"1.0\"?><configuration><property><name>dfs.nameservices</name>\
            <value> other, MyCluster,TWICE,Twice </value></property></configuration>";
        let services = in_text(text).unwrap();
        for (authority, reached) in [
            ("mycluster", "MyCluster"),
            ("other", "other"),
            ("nn.example:9000", "nn.example:9000"),
            ("twice", "twice"),
        ] {
            assert_eq!(among(authority, &services), reached);
        }
        assert_eq!(in_text("<configuration/>"), None);
        assert_eq!(in_text("no XML"), None);
    }
}
