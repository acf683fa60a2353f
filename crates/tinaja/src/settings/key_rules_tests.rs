use super::*;
use crate::settings::file;

fn read(text: &str) -> Result<KeyRules> {
    let file = file::parse(text)?;
    key_rules(file.key_rule, &Source { name: "a.toml", text })
}

#[test]
fn rules_are_read() {
    let text = "[[key_rule]]\nhost = [\"a\", \"*.B\"]\npath = \"/x/*\"\npath_regex = \"y+\"\ndrop_query = [\"x\", \"z_*\"]\n\
                preset = \"tracking\"\nsort_query = true\nstrip_session = \"sid\"\nfold_host = \"C\"\nadd = [\"header:X\", \
                \"cookie:y\"]\nencodings = \"br\"\nvary_cookies = \"y\"\nnormalize = { User-Agent = [[\"a\", \"b\"], [\"b\", \"b\"]] }\n\
                drop_field = \"Referer\"\n[[key_rule]]\nhost = \"d\"\nstore_id = \"e\"\nkeep_query = \"f\"\n\
                [[key_rule]]\npath = \"/keep\"\nquery = \"keep\"\n[[key_rule]]\nquery = \"drop\"\n";
    let parameters = ["x", "z_*"].iter().chain(&TRACKING).map(|name| name.parse().unwrap());
    let word = |expression: &str, word: &str| (expression.to_owned(), word.to_owned());
    let first = KeyRule {
        hosts: ["a", "*.b", "c"].map(|host| host.parse().unwrap()).into(),
        paths: vec![PathPattern::Prefix("/x/".into()), PathPattern::Regex("y+".into())],
        query: Query::Without(parameters.collect()),
        sort_query: true,
        sessions: vec!["sid".into()],
        fold_host: Some("c".parse().unwrap()),
        add: vec![Addition::Header("x".parse().unwrap()), Addition::Cookie("y".into())],
        encodings: Some(vec!["br".into()]),
        cookies: Some(vec!["y".into()]),
        normalize: vec![("user-agent".parse().unwrap(), vec![word("a", "b"), word("b", "b")])],
        drop_fields: vec!["referer".parse().unwrap()],
        number: 1,
        line: Some(1),
        ..KeyRule::default()
    };
    let second = KeyRule {
        hosts: vec!["d".parse().unwrap()],
        query: Query::Only(vec!["f".parse().unwrap()]),
        store_id: Some("e".parse().unwrap()),
        number: 2,
        line: Some(15),
        ..KeyRule::default()
    };
    let third = KeyRule {
        paths: vec!["/keep".parse().unwrap()],
        says_keep: true,
        number: 3,
        line: Some(19),
        ..KeyRule::default()
    };
    let last = KeyRule { query: Query::Nothing, number: 4, line: Some(22), ..KeyRule::default() };
    assert_eq!(read(text).unwrap(), KeyRules::new(vec![first, second, third, last]).unwrap());
    assert!(read("").unwrap().is_empty());
}

#[test]
fn rules_that_make_no_sense_are_refused_with_their_line() {
    let normalize = |words: &str| format!("normalize = {{ User-Agent = [{words}] }}");
    let many = |count: usize| {
        let names: Vec<_> = (0..count).map(|n| format!("\"p{n}\"")).collect();
        format!("preset = \"tracking\"\ndrop_query = [{}]", names.join(", "))
    };
    // A preset counts for none, and may have what the list has.
    for rule in [many(64), "preset = \"tracking\"".into(), "preset = \"tracking\"\ndrop_query = \"gclid\"".into()] {
        read(&format!("[[key_rule]]\n{rule}\n")).unwrap();
    }
    let huge = "path_regex = \"(a{1,500}){1,500}\"\nquery = \"drop\"";
    for (rule, words) in [
        ("", "says nothing"),
        ("host = \"a\"", "says nothing"),
        ("query = \"some\"", "drop_query and keep_query"),
        ("query = \"drop\"\nkeep_query = \"a\"", "use one of them"),
        ("query = \"keep\"\npreset = \"tracking\"", "use one of them"),
        ("drop_query = \"a\"\nkeep_query = \"a\"", "use one of them"),
        ("drop_query = []", "does nothing"),
        ("keep_query = []", "does nothing"),
        ("drop_query = \"a&b\"", "not a query parameter"),
        ("query = \"drop\"\nsort_query = true", "nothing is left to sort"),
        ("preset = \"packages\"", "use \"tracking\""),
        ("strip_session = \";sid=\"", "without ; and ="),
        ("fold_host = \"a\"", "needs host"),
        ("store_id = \"a\"", "needs host"),
        ("host = \"a\"\nfold_host = \"*.a\"", "not a host"),
        ("host = \"a\"\nfold_host = \"a:80\"", "not a host"),
        ("host = \"a\"\nstore_id = \"A b\"", "not a store id"),
        ("host = \"a\"\nstore_id = \"a\"\nfold_host = \"a\"", "do not go together"),
        ("add = \"X-Device\"", "header:NAME"),
        ("add = \"header:Range\"", "range cannot be in add"),
        ("add = \"header:X-Forwarded-Host\"", "x-forwarded-host cannot be in add"),
        ("add = \"header:Cookie\"", "cookie:NAME"),
        ("add = \"cookie:a\"\nvary_cookies = \"b\"", "needs \"a\" in vary_cookies"),
        ("add = [\"header:X\", \"cookie:a\"]", "needs \"a\" in vary_cookies"),
        ("host = [\"a\", \"A\"]\nquery = \"drop\"", "host has \"a\" twice"),
        ("drop_query = [\"a_*\", \"a_*\"]", "drop_query has \"a_*\" twice"),
        ("keep_query = [\"a\", \"a\"]", "keep_query has \"a\" twice"),
        ("add = [\"header:X\", \"header:x\"]", "add has \"header:x\" twice"),
        ("normalize = { User-Agent = [] }", "a field of normalize is empty"),
        (&many(65), "drop_query has more than 64 members"),
        ("add = \"header:X\"\ndrop_field = \"x\"", "no value to add"),
        ("drop_field = \"Authorization\"", "who the client is"),
        ("drop_field = \"Cookie\"", "vary_cookies"),
        ("encodings = []", "does nothing"),
        ("encodings = \"identity\"", "besides identity"),
        ("encodings = \"GZIP\"", "besides identity"),
        ("encodings = [\"br\", \"gzip\", \"br\"]", "encodings has \"br\" twice"),
        ("normalize = { Accept = [[\"\", \"a\"]], accept = [[\"\", \"b\"]] }", "normalize has \"accept\" twice"),
        ("vary_cookies = \"a b\"", "not the name of a cookie"),
        (&normalize("[\"(\", \"a\"]"), "not a regular expression"),
        (&normalize("[\"a\", \"\"]"), "cannot stand for"),
        (&normalize("[\"mobile\", \"phone\"], [\"\", \"other\"]"), "\"phone\" itself becomes \"other\""),
        (&normalize("[\"mobile\", \"phone\"]"), "\"phone\" itself becomes \"\""),
        (huge, "too large"),
        ("host_file = \"/nowhere\"\nquery = \"drop\"", "cannot read the list of hosts /nowhere"),
        (
            "host = \"x.a\"\nquery = \"drop\"\n[[key_rule]]\nhost = \"*.a\"\nquery = \"drop\"\n[[key_rule]]\nhost = [\"y.a\", \"x.a\"]\nquery = \"drop\"",
            "key rule 2 (line 5)",
        ),
        ("ttl = \"1h\"", "unknown field `ttl`"),
    ] {
        let text = format!("\n[[key_rule]]\n{rule}\n");
        let error = format!("{:#}", read(&text).unwrap_err());
        let line = if words.contains("line 5") { "a.toml, line 8: " } else { "line 2" };
        // What is no setting is told by its own line.
        let is_there = error.contains(line) || error.contains("TOML parse error at line");
        assert!(error.contains(words) && is_there, "{rule}: {error}");
    }
}

/// A list of hosts may be long, and is compared and looked up all the same.
#[test]
fn long_lists_of_hosts() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut hosts: String = (0..50_000).map(|n| format!("h{n}.example\n")).collect();
    std::fs::write(file.path(), &hosts).unwrap();
    let name = file.path().display();
    let rule = |path: &str| format!("[[key_rule]]\nhost_file = \"{name}\"\npath = \"{path}\"\nquery = \"drop\"\n");
    assert_eq!(read(&[rule("/a/*"), rule("/b")].concat()).unwrap().len(), 2);
    let error = read(&[rule("/a/*"), rule("/a/b")].concat()).unwrap_err().to_string();
    assert!(error.contains("line 5: this rule never fits, since key rule 1 (line 1)"), "{error}");
    hosts.extend((0..60_000).map(|n| format!("i{n}.example\n")));
    std::fs::write(file.path(), &hosts).unwrap();
    let error = read(&[rule("/a/*"), rule("/b")].concat()).unwrap_err().to_string();
    assert!(error.contains("line 5: the rules up to this one name more than 200000 hosts"), "{error}");
}
