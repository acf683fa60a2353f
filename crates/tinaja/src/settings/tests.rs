use std::collections::BTreeSet;

use clap::{CommandFactory, Parser};
use tinaja_proxy::cache_rules::*;
use tinaja_proxy::mirrors::{Kind, Mirror, Unrewritten};
use tinaja_proxy::{Action, Balance, Check, Diversion, Limits, Mode, Route, Rules, Upstream};
use tinaja_store::engines::{self, BIN_SIZE, HASH_BITS, KEEP, POSITIONS_IN_MEMORY, PREFETCH, SETS_IN_MEMORY, WAYS};

use super::*;
use crate::flags::{Action as Command, Flags};

const EXAMPLE: &str = include_str!("../../../../docs/tinaja.toml");

fn flags(text: &str) -> Serve {
    let words = ["tinaja", "serve", "--cache", "/c"].into_iter().chain(text.split_whitespace());
    let Command::Serve(serve) = Flags::parse_from(words).action else { panic!("not serve") };
    *serve
}

fn read(words: &str, text: &str) -> Result<Settings> {
    let file = file::parse(text)?;
    Settings::over(flags(words), None, file, "a.toml", text)
}

/// The example with every line that is commented out made a setting.
fn all_of_the_example() -> String {
    let line = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.is_empty() && !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    // Credentials are read with the settings.
    let (credentials, hosts, trusted) = (credentials(), hosts(), trusted());
    let there = |line: String| {
        let line = trusted.iter().fold(line, |line, (from, to)| line.replace(from, to));
        let line = line.replace("/etc/tinaja/index.credentials", &credentials);
        line.replace("/etc/tinaja/purge.credentials", &credentials).replace("/etc/tinaja/mirrors.hosts", &hosts)
    };
    EXAMPLE.lines().map(line).map(there).collect::<Vec<_>>().join("\n")
}

/// A file with credentials, the same for all tests.
fn credentials() -> String {
    static FILE: std::sync::OnceLock<tempfile::NamedTempFile> = std::sync::OnceLock::new();
    let file = FILE.get_or_init(|| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "basic user:password\n").unwrap();
        file
    });
    file.path().display().to_string()
}

/// Files of authorities and of what they have revoked, by what the example calls them; the same for all tests.
fn trusted() -> &'static [(&'static str, String); 2] {
    static FILES: std::sync::OnceLock<(tempfile::TempDir, [(&str, String); 2])> = std::sync::OnceLock::new();
    let files = FILES.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let made = tinaja_testkit::nginx::make_certificates(dir.path());
        let revoked = tinaja_testkit::nginx::revoke(&made, &[], None);
        let [authorities, revoked] = [made.authority, revoked].map(|path| path.display().to_string());
        (dir, [("/etc/tinaja/authorities.pem", authorities), ("/etc/tinaja/revoked.pem", revoked)])
    });
    &files.1
}

/// A list of hosts, the same for all tests.
fn hosts() -> String {
    static FILE: std::sync::OnceLock<tempfile::NamedTempFile> = std::sync::OnceLock::new();
    let file = FILE.get_or_init(|| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "# Mirrors of one owner.\nmirror-1.example.org\n*.mirrors.example.org\n").unwrap();
        file
    });
    file.path().display().to_string()
}

/// The ready files of the page about mirrors, each behind the one that all of them need.
#[test]
fn the_files_for_mirrors_are_good() {
    let page = include_str!("../../../../docs/mirrors.md");
    let mut blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let all_need = blocks.next().unwrap();
    let mirrors: Vec<&str> = blocks.filter(|block| block.contains("[[mirror]]")).collect();
    for block in &mirrors {
        let settings = read("", &format!("{all_need}\n{block}")).unwrap();
        assert_eq!(settings.proxy.listeners[0].mirrors.iter().count(), 1, "{block}");
    }
    let kinds =
        Kind::ALL.iter().filter(|kind| mirrors.iter().any(|block| block.contains(&format!("\"{}\"", kind.name()))));
    assert_eq!((mirrors.len(), kinds.count()), (9, Kind::ALL.len()));
}

#[test]
fn mirrors_are_read() {
    let text = "public_url = \"http://cache:80\"\n[[mirror]]\npath = \"/a/\"\norigin = \"https://a/x\"\nhosts = [\"b\", \"*.c\"]\n\
                kind = \"pip\"\nrewrite_limit = \"1KiB\"\nunrewritten = \"refuse\"\nclients = \"10.0.0.0/8\"\n\
                [[listener]]\naddress = \"127.0.0.1:1\"\n[[listener]]\naddress = \"127.0.0.1:2\"\nmode = \"reverse\"\n";
    let listeners = read("", text).unwrap().proxy.listeners;
    let expected = Mirror {
        hosts: vec!["b".parse().unwrap(), "*.c".parse().unwrap()],
        kind: Some(Kind::Pip),
        rewrite_limit_bytes: 1024,
        unrewritten: Unrewritten::Refuse,
        clients: vec!["10.0.0.0/8".parse().unwrap()],
        ..Mirror::new("/a/".into(), "https://a/x/".parse().unwrap())
    };
    for listener in &listeners {
        assert!(listener.mirrors.iter().eq([&expected]));
        assert_eq!(listener.mirrors.public_url().unwrap().to_string(), "http://cache");
    }
    // Flags take the place of the file's.
    let flags = "--mirror pip=https://i/simple/,f --mirror go=https://g";
    let listeners = read(flags, text).unwrap().proxy.listeners;
    let shown: Vec<_> = listeners[0].mirrors.iter().map(|one| format!("{} {}", one.path, one.origin)).collect();
    assert_eq!(shown, ["/pip/ https://i/", "/go/ https://g/"]);
    let listeners = read(&format!("{flags} --listen 127.0.0.1:7"), "").unwrap().proxy.listeners;
    assert_eq!(listeners[0].mirrors.public_url().unwrap().to_string(), "http://127.0.0.1:7");
    let everywhere = read(&format!("{flags} --listen 0.0.0.0:7"), "").unwrap_err().to_string();
    assert!(everywhere.contains("public_url"), "{everywhere}");
    let twice = read("--mirror go=https://g --mirror go=https://h", "").unwrap_err().to_string();
    assert!(twice.contains("two mirrors at /go/"), "{twice}");
}

#[test]
fn the_example_says_the_defaults() {
    let nothing = read("", "").unwrap();
    assert_eq!(read("", EXAMPLE).unwrap(), nothing);
    assert_eq!(nothing.memory_bytes, 64 << 20);
    assert_eq!(nothing.proxy.limits, Limits::default());
    assert_eq!(nothing.proxy.listeners, Config::default().listeners);
    // What has a fixed default is not commented out: it would not be compared. But for what one engine has alone, which is
    // refused where it is said of another.
    let silent: Vec<&str> = EXAMPLE.lines().filter(|line| line.starts_with('#') && line.contains(" = ")).collect();
    let top = silent.iter().take_while(|line| !line.contains("[[")).filter(|line| !line.starts_with("# "));
    let top: Vec<&str> = top.map(|line| line.split(' ').next().unwrap()).collect();
    let silent = [
        "#cache",
        "#disk",
        "#workers",
        "#engine",
        "#sets_in_memory",
        "#positions_in_memory",
        "#positions_dir",
        "#prefetch",
        "#bin_size",
        "#ways",
        "#hash_bits",
        "#first_level",
        "#second_level",
        "#files_per_directory",
        "#overlapping_masks",
        "#mapped_percent",
        "#page_size",
        "#cyclic_replacement",
        "#groups",
        "#frame_size",
        "#large_frames",
        "#group_by_site",
        "#pool",
        "#elevator",
        "#object_size",
        "#metrics",
        "#purge_credentials",
        "#name",
        "#ca_file",
        "#crl_file",
        "#intercept_ca",
        "#public_url",
    ];
    // Those of sections come behind them.
    assert_eq!(top.get(..silent.len()), Some(&silent[..]));
}

#[test]
fn all_of_the_example_is_good() {
    let settings = read("", &all_of_the_example()).unwrap();
    let listeners = &settings.proxy.listeners;
    assert_eq!((listeners.len(), listeners[0].rules.len()), (3, 5));
    assert_eq!(listeners[2].mode, Mode::Transparent(Diversion::Redirect));
    assert!(listeners.iter().all(|listener| listener.cache_rules.len() == 3));
    let intercepted =
        |listener: &Listener| listener.interception.rules.len() == 2 && listener.interception.authority.is_some();
    assert!(listeners.iter().all(intercepted));
    let Mode::Reverse(routes) = &listeners[1].mode else { panic!("not reverse") };
    assert_eq!(routes.list().len(), 3);
    let default = routes.all_else().unwrap();
    assert_eq!(default.to_string(), "https://127.0.0.1:8000, https://127.0.0.1:8003");
    // It says the defaults, where there are any.
    let plain = Upstream::from(default.origins[0].clone());
    let shown = Upstream {
        origins: default.origins.clone(),
        check: default.check.as_ref().map(|check| tinaja_proxy::Check::of(check.path.clone())),
        connect: Some(Limits::default().connect),
        stall: Some(Limits::default().origin_stall),
        tls: default.tls.clone(),
        ..plain
    };
    assert_eq!(*default, shown);
}

/// What a table takes, by what it says when it is given something else.
fn known(before: &str) -> BTreeSet<String> {
    let error = file::parse(&format!("{before}\nno_such_setting = 1\n")).unwrap_err().to_string();
    let (_, names) = error.split_once("expected ").expect(&error);
    // Every other piece between backticks is a name: "one of `a`, `b`", or "`a` or `b`".
    names.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_example_shows_every_setting() {
    let all = all_of_the_example();
    let listener = "[[listener]]\naddress = \"127.0.0.1:1\"\n";
    let of = |table| format!("{listener}[[listener.{table}]]");
    let upstream = format!("{listener}[listener.upstream]");
    for table in [
        "",
        "[limits]",
        "[request_id]",
        "[[cache_rule]]",
        "[[intercept]]",
        "[[mirror]]\npath = \"/a/\"\norigin = \"https://a/\"",
        listener,
        &of("route"),
        &of("rule"),
        &of("certificate"),
        &upstream,
    ] {
        for name in known(table) {
            let shown =
                all.lines().any(|line| line.starts_with(&format!("{name} = ")) || line.contains(&format!("{name}]")));
            assert!(shown, "{name} of {table:?}");
        }
    }
}

#[test]
fn every_flag_has_its_setting() {
    let mut settings = known("");
    settings.extend(known("[[listener]]\naddress = \"127.0.0.1:1\""));
    let command = Flags::command();
    let serve = command.find_subcommand("serve").unwrap();
    for flag in serve.get_arguments().filter_map(|flag| flag.get_long()).chain(["log"]) {
        let setting = match flag {
            "config" | "check" | "take-over" | "help" => continue,
            "listen" => "address".to_owned(),
            flag => flag.replace('-', "_"),
        };
        assert!(settings.contains(&setting), "{setting}");
    }
}

/// And each setting of an engine has both, but for those that the store sets itself.
#[test]
fn every_setting_of_an_engine_is_in_the_file() {
    let known = known("");
    for setting in engines::built_in().settings() {
        assert_eq!(known.contains(&setting.name.replace('-', "_")), !setting.help.is_empty(), "{}", setting.name);
    }
}

/// The package's settings, as they are installed.
#[test]
fn the_package_has_good_settings() {
    let packaged = include_str!("../../../../ops/debian/tinaja.toml");
    let file = file::parse(packaged).unwrap();
    let Command::Serve(serve) = Flags::parse_from(["tinaja", "serve"]).action else { panic!("not serve") };
    let settings = Settings::over(*serve, None, file, "tinaja.toml", packaged).unwrap();
    assert_eq!(settings.cache, [PathBuf::from("/var/cache/tinaja")]);
    assert!(settings.proxy.listeners.iter().all(|listener| listener.address.ip().is_loopback()));
}

#[test]
fn ids_and_logs_are_read() {
    let text =
        "log_file = \"/l\"\nlog_format = \"json\"\n[request_id]\nheader = \"X-Request-Id\"\ntrust = \"10.0.0.0/8\"\n";
    let settings = read("", text).unwrap();
    assert_eq!(settings.log_to, LogTo { file: Some("/l".into()), json: true });
    assert_eq!(settings.proxy.request_ids.header.as_ref().unwrap(), "x-request-id");
    assert_eq!(settings.proxy.request_ids.trust, ["10.0.0.0/8".parse().unwrap()]);
    let flags = read("--log-file off --log-format text", text).unwrap();
    assert_eq!(flags.log_to, LogTo::default());
}

#[test]
fn flags_override_the_file() {
    let text = "cache = [\"/a\", \"/b\"]\nmemory = \"1MiB\"\nworkers = 3\nsandbox = true\naccess_log = \"/log\"\nlog = \"warn\"\n\
                [[listener]]\naddress = \"127.0.0.1:1\"\nallow_destination = \"10.0.0.0/8\"\n\
                [[listener]]\naddress = \"127.0.0.1:2\"\nmode = \"reverse\"\norigin = \"http://a\"\n";
    let file = read("", text).unwrap();
    assert_eq!((file.memory_bytes, file.proxy.workers, file.log.as_str()), (1 << 20, 3, "warn"));
    assert!(file.sandbox && !read("", "").unwrap().sandbox);
    assert_eq!(file.proxy.access_log, Some("/log".into()));
    assert_eq!(file.cache, [PathBuf::from("/c")], "the flag's");
    let both = read("--memory 2MiB --workers 4 --access-log off --access-log-format json --disk 1GiB", text).unwrap();
    assert_eq!((both.memory_bytes, both.proxy.workers, both.proxy.access_log.clone()), (2 << 20, 4, None));
    assert_eq!((both.disk_bytes, both.proxy.access_log_format.name()), (Some(1 << 30), "json"));
    assert_eq!(both.proxy.listeners, file.proxy.listeners);

    let positions = |flags| read(flags, &format!("positions_dir = \"/ssd\"\n{text}")).unwrap().positions_dir;
    assert_eq!([positions(""), positions("--positions-dir /b")], [Some("/ssd".into()), Some("/b".into())]);

    let tuned = |flags| {
        let set = "sets_in_memory = 30\npositions_in_memory = 6\nprefetch = true\nhash_bits = 12\nkeep = 10";
        let said = read(flags, &format!("{set}\n{text}")).unwrap().knobs;
        [&SETS_IN_MEMORY, &POSITIONS_IN_MEMORY, &PREFETCH, &HASH_BITS, &KEEP].map(|setting| said.get(setting))
    };
    assert_eq!(tuned(""), [30, 6, 1, 12, 10].map(Some));
    let flags = "--sets-in-memory 70 --positions-in-memory 1 --prefetch false --hash-bits 9 --keep 0";
    assert_eq!(tuned(flags), [70, 1, 0, 9, 0].map(Some));

    let cut = |flags| {
        let settings = read(flags, &format!("bin_size = \"8KiB\"\nways = 4\nobject_size = \"5kB\"\n{text}")).unwrap();
        (settings.knobs.get(&BIN_SIZE), settings.knobs.get(&WAYS), settings.object_bytes)
    };
    assert_eq!(cut(""), (Some(8192), Some(4), Some(5000)));
    assert_eq!(cut("--bin-size 16KiB --ways 2 --object-size 1MiB"), (Some(16_384), Some(2), Some(1 << 20)));

    let other = read("--listen 127.0.0.1:9 --origin http://o", text).unwrap();
    assert_eq!(other.proxy.listeners, [Listener::reverse("127.0.0.1:9".parse().unwrap(), "http://o".parse().unwrap())]);
    let opened = read("--allow-connect-port 8443", text).unwrap();
    let rules = vec![Rule::allow_connect_port(8443), Rule::allow_destination("10.0.0.0/8".parse().unwrap())];
    assert_eq!(opened.proxy.listeners[0].rules, Rules::from(rules));
    assert!(opened.proxy.listeners[1].rules.is_empty());
    let error = read("--origin http://o", text).unwrap_err().to_string();
    assert!(error.contains("--listen"), "{error}");
    let reverse = "[[listener]]\naddress = \"127.0.0.1:2\"\nmode = \"reverse\"\norigin = \"http://a\"\n";
    let error = read("--allow-destination 10.0.0.0/8", reverse).unwrap_err().to_string();
    assert!(error.contains("--allow-destination"), "{error}");
}

#[test]
fn offline_is_for_all_listeners_and_the_flag_counts_before_the_file() {
    let listeners = "[[listener]]\naddress = \"127.0.0.1:1\"\n[[listener]]\naddress = \"127.0.0.1:2\"\n";
    for (flags, file, expected) in [
        ("", "", false),
        ("", "offline = true\n", true),
        ("--offline", "", true),
        ("--offline", "offline = false\n", true),
        ("--offline=false", "offline = true\n", false),
    ] {
        let settings = read(flags, &format!("{file}{listeners}")).unwrap();
        assert!(settings.proxy.listeners.iter().all(|one| one.offline == expected), "{flags:?} {file:?}");
    }
}

#[test]
fn rules_and_routes_are_read() {
    let text = "[[listener]]\naddress = \"[::1]:1\"\n[[listener.rule]]\naction = \"deny\"\nclient = \"10.0.0.0/8\"\n\
                method = [\"PURGE\", \"M-SEARCH\"]\nport = [25, \"8000-8999\"]\ndestination = [\"::1\"]\n\
                [[listener.rule]]\naction = \"allow\"\nupgrade = [\"WebSocket\", \"tcp/1.0\"]\n\
                [[listener]]\naddress = \"127.0.0.1:2\"\nmode = \"reverse\"\n\
                [[listener.route]]\nhost = \"A.example\"\norigin = \"http://a\"\n\
                [[listener.route]]\npath = \"/b/\"\norigin = \"http://b\"\n";
    let listeners = read("", text).unwrap().proxy.listeners;
    let rule = Rule {
        action: Action::Deny,
        clients: vec!["10.0.0.0/8".parse().unwrap()],
        methods: vec!["PURGE".into(), "M-SEARCH".into()],
        ports: vec![25.into(), "8000-8999".parse().unwrap()],
        destinations: vec!["::1".parse().unwrap()],
        upgrades: Vec::new(),
    };
    let upgrades = vec!["websocket".into(), "tcp/1.0".into()];
    let about_upgrades = Rule { upgrades, ..Rule::new(Action::Allow) };
    assert_eq!(listeners[0].rules, Rules::from(vec![rule, about_upgrades]));
    let Mode::Reverse(routes) = &listeners[1].mode else { panic!("not reverse") };
    let route = |host: Option<&str>, path: &str, origin: &str| Route {
        host: host.map(str::to_owned),
        path: path.into(),
        origin: origin.parse().unwrap(),
    };
    assert_eq!(routes.list(), [route(Some("a.example"), "/", "http://a"), route(None, "/b", "http://b")]);
}

#[test]
fn cache_rules_are_read() {
    let text = "[[cache_rule]]\nhost = [\"a\", \"*.B\"]\npath = \"/x/*\"\npath_regex = [\"y+\"]\nstatus = [200, \"4xx\"]\n\
                type = \"Image/*\"\nmin_size = \"1KiB\"\nmax_size = \"2KiB\"\nstore = \"shared\"\nttl = \"1h\"\n\
                min_ttl = \"1m\"\nmax_ttl = \"1day\"\ngrace = \"0s\"\noverride = [\"no-store\", \"lifetime\"]\n\
                ignore = [\"set-cookie\", \"client-no-cache\"]\nencode = [\"br\", \"gzip\"]\n[[cache_rule]]\nhost = \"c\"\npreset = \"packages\"\n\
                [[cache_rule]]\nstore = \"default\"\n";
    let listeners = read("", text).unwrap().proxy.listeners;
    let orders = Orders {
        store: Storing::Shared,
        ttl_seconds: Some(3600),
        min_seconds: 60,
        max_seconds: 86_400,
        grace_seconds: Some(0),
        overrides: [Override::NoStore, Override::Lifetime].into_iter().collect(),
        without_cookies: true,
        ignores_reload: true,
        encode: [Coding::Br, Coding::Gzip].into_iter().collect(),
    };
    let first = CacheRule {
        hosts: vec![HostPattern::Exact("a".into()), HostPattern::Below("b".into())],
        paths: vec![PathPattern::Prefix("/x/".into()), PathPattern::Regex("y+".into())],
        statuses: vec![StatusPattern::One(200), StatusPattern::Class(4)],
        types: vec![TypePattern::Kind("image/".into())],
        min_bytes: Some(1024),
        max_bytes: Some(2048),
        number: 1,
        line: Some(1),
        ..CacheRule::new(orders)
    };
    let preset = Preset::Packages.rules(&[HostPattern::Exact("c".into())]);
    let preset = preset.into_iter().map(|rule| CacheRule { number: 2, line: Some(17), ..rule });
    let last = CacheRule { number: 3, line: Some(20), ..CacheRule::new(Orders::default()) };
    let all = [first].into_iter().chain(preset).chain([last]).collect();
    assert_eq!(listeners[0].cache_rules, CacheRules::new(all).unwrap());
    // Flags that replace listeners leave the rules.
    let other = read("--listen 127.0.0.1:9", text).unwrap().proxy.listeners;
    assert_eq!(other[0].cache_rules, listeners[0].cache_rules);
}

#[test]
fn rules_about_tunnels_are_read() {
    use tinaja_proxy::intercept::{InterceptAction, OnReject};
    let text = "intercept_ca = \"/ca\"\n[[intercept]]\npreset = \"private\"\nclient = \"10.0.0.0/8\"\n[[intercept]]\n\
                host = [\"a\", \"*.b\"]\naction = \"cache\"\n[[intercept]]\naction = \"cache\"\non_reject = \"tunnel\"\n";
    let settings = read("--listen 127.0.0.1:1 --listen 127.0.0.1:2", text).unwrap();
    assert_eq!(settings.proxy.listeners.len(), 2);
    for listener in &settings.proxy.listeners {
        let interception = &listener.interception;
        assert_eq!((interception.authority.as_deref(), interception.rules.len()), (Some(Path::new("/ca")), 3));
        let actions = [1, 2].map(|n: usize| interception.rules.list()[n].action);
        assert_eq!(actions, [OnReject::Refuse, OnReject::Tunnel].map(InterceptAction::Cache));
        let lines: Vec<_> = interception.rules.list().iter().map(|rule| (rule.number, rule.line)).collect();
        assert_eq!(lines, [(1, Some(2)), (2, Some(5)), (3, Some(8))]);
        assert_eq!(interception.rules.list()[0].clients.len(), 1);
    }
    // A CA may be there before there are rules.
    assert!(read("", "intercept_ca = \"/ca\"").unwrap().proxy.listeners[0].interception.rules.is_empty());
}

#[test]
fn lists_of_origins_are_read() {
    let text = "[[listener]]\naddress = \"127.0.0.1:2\"\nmode = \"reverse\"\norigins = [\"http://a\", \"https://b\"]\n\
                [listener.upstream]\nbalance = \"hash\"\nfails = 5\nrest = \"1s\"\ncheck = \"/up?x\"\n\
                check_passes = 7\nconnect = \"2s\"\norigin_stall = \"3s\"\nkeep = 0\nkeep_for = \"9s\"\ntries = 2\n\
                retry_within = \"4s\"\nhttp2 = true\nauthority = \"/ca\"\ncertificate = \"/c\"\nkey = \"/k\"\n\
                [[listener.route]]\npath = \"/x\"\norigins = [\"http://c\"]\nupstream = { balance = \"round-robin\" }\n";
    let listeners = read("", text).unwrap().proxy.listeners;
    let Mode::Reverse(routes) = &listeners[0].mode else { panic!("not reverse") };
    let seconds = std::time::Duration::from_secs;
    let files = tinaja_proxy::CertificateFiles { certificate: "/c".into(), key: "/k".into() };
    let expected = Upstream {
        origins: ["http://a", "https://b"].map(|url| url.parse().unwrap()).into(),
        balance: Balance::Hash,
        tries: 2,
        retry_within: seconds(4),
        fails: 5,
        rest: seconds(1),
        check: Some(Check { passes: 7, ..Check::of("/up?x".into()) }),
        connect: Some(seconds(2)),
        stall: Some(seconds(3)),
        keep: 0,
        keep_for: seconds(9),
        http2: true,
        tls: tinaja_proxy::OriginTls { authority: Some("/ca".into()), certificate: Some(files) },
    };
    assert_eq!(routes.all_else(), Some(&expected));
    let c: Upstream = "http://c".parse().unwrap();
    assert_eq!(routes.list()[0].origin, Upstream { balance: Balance::RoundRobin, ..c });
}

#[test]
fn nonsense_is_named_with_its_line() {
    let listener = "[[listener]]\naddress = \"127.0.0.1:80\"\n";
    let transparent = format!("{listener}mode = \"transparent\"\n");
    let reverse = format!("{listener}mode = \"reverse\"\n");
    let mirror = "[[mirror]]\norigin = \"https://a\"\npath = ";
    let up = "origin = \"http://a\"\n[listener.upstream]\n";
    for (text, line, words) in [
        ("memry = \"1GiB\"".to_owned(), 1, vec!["memry", "memory"]),
        (
            format!("{listener}[[listener.rule]]\naction = \"allow\"\nupgrade = \"h2c\"\n"),
            5,
            vec!["never passed on", "not judged"],
        ),
        (
            format!("{listener}[[listener.rule]]\naction = \"allow\"\nupgrade = \"web socket\"\n"),
            5,
            vec!["as in websocket"],
        ),
        (
            format!("{listener}[[listener.rule]]\naction = \"allow\"\nupgrade = \"x\"\ndestination = \"::1\"\n"),
            3,
            vec!["takes no destination"],
        ),
        ("\nmemory = \"many\"".to_owned(), 2, vec!["4GiB"]),
        ("memory = 5".to_owned(), 1, vec!["string"]),
        ("memory = \"1MiB\"\nmemory = \"2MiB\"".to_owned(), 2, vec!["duplicate"]),
        ("[limits]\nhead = \"0s\"".to_owned(), 2, vec!["more than 0"]),
        ("[limits]\nhaed = \"1s\"".to_owned(), 2, vec!["haed", "head"]),
        ("[limits]\nconnections = 0".to_owned(), 2, vec!["0 is not from 1 to 1000000"]),
        ("[limits]\nclient_burst = 0".to_owned(), 2, vec!["0 is not from 1 to 1000000"]),
        ("[limits]\nclient_rate = -1".to_owned(), 2, vec!["from 0 to 1000000"]),
        ("workers = 2000".to_owned(), 1, vec!["from 1 to 1024"]),
        ("engine = \"perpetual-motion\"".to_owned(), 1, vec!["hashcache-basic", "hashcache-loglru", "hashcache-log"]),
        ("sets_in_memory = 0".to_owned(), 1, vec!["from 1 to 100"]),
        ("positions_in_memory = 9".to_owned(), 1, vec!["from 1 to 8"]),
        ("keep = 51".to_owned(), 1, vec!["from 0 to 50"]),
        ("ways = 9".to_owned(), 1, vec!["from 1 to 8"]),
        ("hash_bits = 7".to_owned(), 1, vec!["from 8 to 16"]),
        ("bin_size = 8192".to_owned(), 1, vec!["string"]),
        ("log = \"chatty\"".to_owned(), 1, vec!["warn"]),
        ("name = \"a b\"".to_owned(), 1, vec!["letters"]),
        ("log_format = \"xml\"".to_owned(), 1, vec!["text or json"]),
        ("[request_id]\nheader = \"Cookie\"".to_owned(), 2, vec!["X-Request-Id"]),
        ("[request_id]\nheader = \"X-Forwarded-For\"".to_owned(), 2, vec!["X-Request-Id"]),
        ("[request_id]\ntrust = \"here\"".to_owned(), 2, vec!["192.168.0.0/16"]),
        ("access_log_format = \"xml\"".to_owned(), 1, vec!["combined"]),
        ("[[listener]]\nmode = \"forward\"".to_owned(), 1, vec!["address"]),
        ("[[listener]]\naddress = \"localhost:1\"".to_owned(), 2, vec!["127.0.0.1:3128"]),
        (format!("{listener}mode = \"both\""), 3, vec!["forward", "reverse"]),
        (format!("{listener}\n{listener}"), 5, vec!["127.0.0.1:80 and 127.0.0.1:80 overlap"]),
        (format!("{listener}[[listener]]\naddress = \"0.0.0.0:80\""), 4, vec!["overlap", "another port"]),
        (format!("{listener}origin = \"http://a\""), 3, vec!["mode = \"reverse\""]),
        (format!("{listener}by = \"tproxy\""), 3, vec!["mode = \"transparent\""]),
        (format!("{transparent}by = \"nat\""), 4, vec!["redirect", "tproxy"]),
        (format!("{transparent}origin = \"http://a\""), 4, vec!["mode = \"reverse\""]),
        (format!("{transparent}[[listener.certificate]]\nfile = \"/c\"\nkey = \"/k\""), 2, vec!["[[intercept]]"]),
        (
            format!("{transparent}proxy_protocol = \"192.0.2.0/24\""),
            4,
            vec!["clients themselves", "remove proxy_protocol"],
        ),
        (format!("{transparent}trusted_proxies = \"192.0.2.1\""), 4, vec!["clients themselves", "trusted_proxies"]),
        (format!("{reverse}trusted_proxies = \"any\""), 4, vec!["192.168.0.0/16"]),
        (format!("{listener}client_field = \"forwarded\""), 3, vec!["set trusted_proxies"]),
        (format!("{listener}client_field = \"x-real-ip\""), 3, vec!["x-forwarded-for", "forwarded"]),
        (format!("{listener}forwarded = \"both\""), 3, vec!["only a reverse proxy", "remove forwarded"]),
        (format!("{reverse}forwarded = \"all\""), 4, vec!["x-forwarded", "both"]),
        (format!("{reverse}proxy_protocol = \"balancer\""), 4, vec!["192.168.0.0/16"]),
        (format!("{reverse}allow_destination = \"::1\""), 4, vec!["mode = \"forward\""]),
        (reverse.clone(), 2, vec!["needs an origin"]),
        (format!("{reverse}origin = \"ftp://a\""), 4, vec!["http://127.0.0.1:8080"]),
        (format!("{reverse}[[listener.route]]\norigin = \"http://a\""), 4, vec!["a host or a path"]),
        (format!("{reverse}[[listener.route]]\npath = \"b\"\norigin = \"http://a\""), 4, vec!["/downloads"]),
        (format!("{reverse}[[listener.route]]\npaht = \"/b\"\norigin = \"http://a\""), 5, vec!["paht", "path"]),
        (
            format!(
                "{reverse}{0}path = \"/b\"\norigin = \"http://a\"\n{0}path = \"/b/\"\norigin = \"http://c\"",
                "[[listener.route]]\n"
            ),
            7,
            vec!["two routes for any host and /b/"],
        ),
        (
            format!("{listener}[[listener.rule]]\naction = \"allow\"\nclient = \"10.0.0.0/33\""),
            5,
            vec!["192.168.0.0/16"],
        ),
        (format!("{listener}[[listener.rule]]\naction = \"perhaps\""), 4, vec!["allow", "deny"]),
        (format!("{listener}[[listener.rule]]\nclient = \"::1\""), 3, vec!["action"]),
        (format!("{listener}[[listener.rule]]\naction = \"deny\"\nport = [0]"), 5, vec!["8000-8999"]),
        (format!("{listener}[[listener.rule]]\naction = \"deny\"\nmethod = \"get\""), 5, vec!["GET"]),
        (format!("{listener}allow_connect_port = [443, 70000]"), 3, vec!["from 1 to 65535"]),
        (format!("{reverse}origins = []"), 2, vec!["list of origins is empty"]),
        (format!("{reverse}origins = [\"http://a\", \"http://A:80\"]"), 2, vec!["http://a:80 is in the list", "twice"]),
        (format!("{reverse}origin = \"http://a\"\norigins = [\"http://b\"]"), 2, vec!["into the list"]),
        (format!("{reverse}{up}balance = \"best\""), 6, vec!["round-robin"]),
        (format!("{reverse}{up}blance = \"first\""), 6, vec!["blance", "balance"]),
        (format!("{reverse}{up}tries = 0"), 6, vec!["from 1 to 10"]),
        (format!("{reverse}{up}check = \"healthz\""), 6, vec!["/healthz"]),
        (format!("{reverse}{up}check_passes = 3"), 5, vec!["check", "/healthz"]),
        (format!("{reverse}{up}certificate = \"/c\""), 5, vec!["certificate and key"]),
        (format!("{reverse}{up}authority = \"/c\""), 5, vec!["https"]),
        (format!("{reverse}[listener.upstream]\nfails = 1"), 4, vec!["name some"]),
        (format!("{listener}[listener.upstream]\nfails = 1"), 3, vec!["mode = \"reverse\""]),
        (format!("{reverse}[[listener.route]]\npath = \"/b\""), 4, vec!["needs an origin"]),
        ("cache = \"/a".to_owned(), 1, vec![]),
        ("[[cache_rule]]\nttl = \"soon\"".to_owned(), 2, vec!["30days"]),
        ("[[cache_rule]]\nttl = \"11years\"".to_owned(), 2, vec!["ten years"]),
        ("[[cache_rule]]\nttl = \"1500ms\"".to_owned(), 2, vec!["whole seconds"]),
        ("[[cache_rule]]\ntll = \"1h\"".to_owned(), 2, vec!["tll", "ttl"]),
        ("[[cache_rule]]\npath = \"a\"".to_owned(), 2, vec!["/img/*", "path_regex"]),
        ("[[cache_rule]]\nhost = \"a:80\"".to_owned(), 2, vec!["without a port"]),
        ("[[cache_rule]]\nstatus = 99".to_owned(), 2, vec!["4xx"]),
        ("[[cache_rule]]\ntype = \"html\"".to_owned(), 2, vec!["text/html"]),
        ("[[cache_rule]]\nstore = \"always\"".to_owned(), 2, vec!["shared", "never"]),
        ("[[cache_rule]]\noverride = \"vary\"".to_owned(), 2, vec!["must-revalidate", "authorization"]),
        ("[[cache_rule]]\nignore = \"vary\"".to_owned(), 2, vec!["client-no-cache"]),
        (
            "[[cache_rule]]\nencode = \"deflate\"".to_owned(),
            2,
            vec!["\"deflate\" is no coding", "\"gzip\", \"br\" or \"zstd\""],
        ),
        ("[[cache_rule]]\nencode = []".to_owned(), 1, vec!["empty list of codings"]),
        ("[[cache_rule]]\nencode = [\"br\", \"br\"]".to_owned(), 1, vec!["twice"]),
        ("[[cache_rule]]\nstore = \"never\"\nencode = \"br\"".to_owned(), 1, vec!["leaves nothing"]),
        ("[[cache_rule]]\npreset = \"wordpress\"".to_owned(), 2, vec!["packages"]),
        ("\n[[cache_rule]]\npreset = \"packages\"".to_owned(), 2, vec!["needs host"]),
        ("[[cache_rule]]\nhost = \"a\"\npreset = \"packages\"\nttl = \"1h\"".to_owned(), 1, vec!["host alone"]),
        ("[[cache_rule]]\nhost = \"a\"\npreset = \"packages\"\npath = \"/*\"".to_owned(), 1, vec!["host alone"]),
        ("[[cache_rule]]\nhost = \"a\"".to_owned(), 1, vec!["says nothing", "default"]),
        ("[[cache_rule]]\nhost = \"a\"\nignore = []".to_owned(), 1, vec!["empty list"]),
        ("[[cache_rule]]\nmin_ttl = \"2s\"\nmax_ttl = \"1s\"".to_owned(), 1, vec!["longer than max_ttl"]),
        (
            "[[cache_rule]]\nmin_size = \"2\"\nmax_size = \"1\"\nttl = \"1s\"".to_owned(),
            1,
            vec!["larger than max_size"],
        ),
        ("[[cache_rule]]\nstore = \"never\"\nttl = \"1s\"".to_owned(), 1, vec!["leaves nothing"]),
        ("[[cache_rule]]\noverride = \"lifetime\"".to_owned(), 1, vec!["lifetime", "without ttl"]),
        ("[[cache_rule]]\nttl = \"1s\"\npath_regex = \"a(\"".to_owned(), 1, vec!["a(", "unclosed group"]),
        (
            "[[cache_rule]]\npath = \"/a*\"\nttl = \"1s\"\n[[cache_rule]]\npath = \"/ab\"\nttl = \"2s\"".to_owned(),
            4,
            vec!["never fits", "cache rule 1 (line 1)"],
        ),
        (
            format!("{0}{0}", "[[cache_rule]]\nhost = \"a\"\npreset = \"packages\"\n"),
            4,
            vec!["never fits", "cache rule 1 (line 1)"],
        ),
        ("intercept_ca = 5".to_owned(), 1, vec!["string"]),
        ("[[intercept]]\nhost = \"a:443\"\naction = \"tunnel\"".to_owned(), 2, vec!["without a port"]),
        ("[[intercept]]\nclient = \"here\"\naction = \"tunnel\"".to_owned(), 2, vec!["192.168.0.0/16"]),
        ("[[intercept]]\naction = \"bump\"".to_owned(), 2, vec!["\"cache\", \"tunnel\" or \"refuse\""]),
        ("[[intercept]]\nacton = \"cache\"".to_owned(), 2, vec!["acton", "action"]),
        ("[[intercept]]\naction = \"cache\"\non_reject = \"ask\"".to_owned(), 3, vec!["\"refuse\" or \"tunnel\""]),
        ("[[intercept]]\npreset = \"banks\"".to_owned(), 2, vec!["use \"private\""]),
        ("\n[[intercept]]\nhost = \"a\"".to_owned(), 2, vec!["says nothing", "an action, or a preset"]),
        ("[[intercept]]\npreset = \"private\"\nhost = \"a\"".to_owned(), 1, vec!["client alone"]),
        ("[[intercept]]\npreset = \"private\"\naction = \"cache\"".to_owned(), 1, vec!["client alone"]),
        ("[[intercept]]\npreset = \"private\"\non_reject = \"tunnel\"".to_owned(), 1, vec!["client alone"]),
        ("[[intercept]]\naction = \"tunnel\"\non_reject = \"tunnel\"".to_owned(), 1, vec!["on_reject", "remove it"]),
        (
            "\n[[intercept]]\naction = \"cache\"".to_owned(),
            2,
            vec!["there is no CA", "tinaja ca create", "intercept_ca"],
        ),
        (
            "[[intercept]]\nhost = \"*.a\"\naction = \"tunnel\"\n[[intercept]]\nhost = \"b.a\"\naction = \"refuse\""
                .to_owned(),
            4,
            vec!["never decides", "interception rule 1 (line 1)"],
        ),
        (
            format!("[[intercept]]\naction = \"tunnel\"\n{reverse}origin = \"http://a\""),
            1,
            vec!["no listener is one", "mode = \"forward\""],
        ),
        ("cache = 5".to_owned(), 1, vec!["string"]),
        (format!("{mirror}\"/a\""), 1, vec!["/pypi/", "slash at both ends"]),
        (format!("{mirror}\"a/\""), 1, vec!["/pypi/"]),
        (format!("{mirror}\"/a/\"\n{mirror}\"/a/\""), 4, vec!["two mirrors at /a/"]),
        (format!("{mirror}\"/a/\"\nkind = \"deb\""), 4, vec!["pip, npm, cargo"]),
        (format!("{mirror}\"/a/\"\nhosts = [\"https://b/c\"]"), 4, vec!["*.example.org"]),
        (format!("{mirror}\"/a/\"\nunrewritten = \"drop\""), 4, vec!["\"refuse\""]),
        (format!("{mirror}\"/a/\"\nredirects = true"), 4, vec!["redirects", "hosts"]),
        (format!("{mirror}\"/a/\"\ncredentials = \"/does/not/exist\""), 1, vec!["/does/not/exist"]),
        (format!("{mirror}\"/a/\"\ncredentials = \"{}\"", credentials()), 1, vec!["needs clients"]),
        (format!("{mirror}\"/a/\"\nupstream = {{ authority = \"/c\" }}").replace("https", "http"), 1, vec!["https"]),
        ("[[mirror]]\npath = \"/a/\"\norigin = \"a\"".to_owned(), 3, vec!["https://index.example.org/simple/"]),
        ("public_url = \"http://a/b\"".to_owned(), 1, vec!["without a path"]),
    ] {
        let error = read("", &text).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(&format!("line {line}")), "line {line} of {text:?}: {error}");
        for word in words {
            assert!(error.contains(word), "{word:?} in {error}\n{text}");
        }
    }
}
