//! Files that a configuration names to be read: certificates, keys, lists, credentials.

use std::path::PathBuf;

use toml::{Table, Value};

/// The settings that name such files, or directories of them, wherever they stand.
const SETTINGS: [&str; 11] = [
    "authority",
    "ca",
    "ca_file",
    "certificate",
    "credentials",
    "crl_file",
    "file",
    "host_file",
    "intercept_ca",
    "key",
    "purge_credentials",
];

/// The configuration file itself and the files that its text names. A text that is no configuration names none.
pub fn named(config: PathBuf, text: &str) -> Vec<PathBuf> {
    let mut files = vec![config];
    within(&Value::Table(text.parse::<Table>().unwrap_or_default()), false, &mut files);
    files
}

fn within(value: &Value, is_named: bool, files: &mut Vec<PathBuf>) {
    match value {
        Value::Table(table) => {
            for (setting, value) in table {
                within(value, SETTINGS.contains(&setting.as_str()), files);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| within(value, is_named, files)),
        Value::String(path) if is_named => files.push(path.into()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_wherever_they_stand() {
        let text = "cache = \"/c\"\nca_file = [\"/a\", \"/b\"]\npurge_credentials = \"/p\"\n[[listener]]\naddress = \"127.0.0.1:1\"\n\
                    [[listener.certificate]]\nfile = \"/f\"\nkey = \"/k\"\n[listener.upstream]\nauthority = \"/u\"\n[[cache_rule]]\nhost_file = \"/h\"";
        let mut found = named("/t".into(), text);
        found.sort_unstable();
        assert_eq!(found, ["/a", "/b", "/f", "/h", "/k", "/p", "/t", "/u"].map(PathBuf::from));
        assert_eq!(named("/t".into(), "= no"), [PathBuf::from("/t")]);
    }

    /// A new setting that names a file is in the list, or is none of those that are read.
    #[test]
    fn no_setting_is_forgotten() {
        let sources = [
            include_str!("cache_rules.rs"),
            include_str!("cluster.rs"),
            include_str!("file.rs"),
            include_str!("intercept.rs"),
            include_str!("key_rules.rs"),
            include_str!("listeners.rs"),
            include_str!("mirrors.rs"),
            include_str!("upstream.rs"),
        ];
        let fields = sources.iter().flat_map(|text| text.lines()).filter_map(|line| {
            let (name, kind) = line.trim().trim_start_matches("pub ").split_once(": ")?;
            let is_field = line.starts_with("    ") && !line.starts_with("     ") && kind.ends_with(',');
            (is_field && kind.contains("PathBuf")).then_some(name)
        });
        let mut others: Vec<&str> = fields.filter(|name| !SETTINGS.contains(name)).collect();
        others.sort_unstable();
        // What is written, and the authority that a parameter is called. Logs are no PathBuf.
        assert_eq!(others, ["cache", "positions_dir"]);
        assert!(sources.iter().any(|text| text.contains("    host_file: Option<PathBuf>,")), "it reads fields");
    }
}
