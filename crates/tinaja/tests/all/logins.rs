//! A site with logins, as WordPress is: nginx before an application that says nothing of lifetimes to who is not logged in, sets cookies now
//! and then, and answers otherwise to whoever has a cookie of a login. The rules are those of docs/key-rules.md.

use crate::support::home::Home;
use tinaja_testkit::client::{Client, Response, get_with};
use tinaja_testkit::nginx::{Nginx, make_certificates};
use tinaja_testkit::origin::{Origin, Request, reply};

const LOGIN: &str = "wordpress_logged_in_1";

/// Who a request says it comes from.
fn user(request: &Request) -> Option<String> {
    let cookies = request.field("cookie")?;
    let login = cookies.split("; ").find_map(|cookie| cookie.strip_prefix(&format!("{LOGIN}=")))?;
    Some(login.to_owned())
}

fn application() -> Origin {
    Origin::start(|request, stream| {
        let personal = "Cache-Control: no-cache, must-revalidate, max-age=0, no-store, private\r\n";
        let path = request.path.split('?').next().unwrap_or_default();
        match (path, user(request)) {
            ("/wp-login.php", _) => {
                let fields = format!("{personal}Set-Cookie: {LOGIN}=ann\r\nLocation: /wp-admin/\r\n");
                reply(stream, request, 302, &fields, b"")
            }
            ("/wp-admin/", user) => {
                let seen = format!("{user:?} {}", request.field("cookie").unwrap_or_default());
                reply(stream, request, 200, personal, seen.as_bytes())
            }
            (_, Some(user)) => reply(stream, request, 200, personal, format!("hello {user}").as_bytes()),
            ("/shop", None) => reply(stream, request, 200, "Set-Cookie: basket=1\r\n", b"shop"),
            (_, None) => reply(stream, request, 200, "", request.path.as_bytes()),
        }
    })
}

#[test]
fn who_is_not_logged_in_gets_hits_and_who_is_gets_their_own() {
    let (mut home, application) = (Home::new(), application());
    let certificates = make_certificates(home.dir.path());
    let nginx = Nginx::start_before(&certificates, application.address);
    let rules = "[[key_rule]]\npath = [\"/wp-admin/*\", \"/wp-login.php\"]\nquery = \"keep\"\n\
         [[key_rule]]\npreset = \"tracking\"\nvary_cookies = \"wordpress_logged_in_1\"\nadd = \"cookie:wordpress_logged_in_1\"\n\
         [[cache_rule]]\npath = [\"/wp-admin/*\", \"/wp-login.php\"]\nstore = \"never\"\n\
         [[cache_rule]]\nttl = \"10m\"\ngrace = \"1h\"\nignore = \"set-cookie\"\n";
    home.listener = rules.to_owned();
    let mode = format!(
        "mode = \"reverse\"\norigin = \"https://localhost:{}\"\n[listener.upstream]\nauthority = {:?}\n",
        nginx.address().port(),
        certificates.authority
    );
    let _server = home.start(&mode);
    let ask = |path: &str, cookie: &str| -> Response {
        let fields = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
        get_with(home.listen, &format!("http://{}{path}", home.listen), &fields).unwrap()
    };
    let said = |answer: &Response| (answer.text(), answer.is_hit());

    // Whatever they were given by whoever counts them, they are one: pages, styles, and where cookies are set.
    assert_eq!(said(&ask("/?p=1", "_ga=1")), ("/?p=1".into(), false));
    assert_eq!(said(&ask("/?utm_source=mail&p=1", "_ga=2; consent=yes")), ("/?p=1".into(), true));
    assert_eq!(said(&ask("/?p=2", "")), ("/?p=2".into(), false), "another page");
    assert!(!ask("/wp-content/a.css?ver=1", "").is_hit() && ask("/wp-content/a.css?ver=1", "_ga=3").is_hit());
    let shop = [ask("/shop", ""), ask("/shop", "_ga=4")];
    assert_eq!(
        shop.each_ref().map(|shop| (shop.is_hit(), shop.field("set-cookie"))),
        [(false, "basket=1".to_owned()), (true, String::new())]
    );

    // A login goes through, with its cookie; so does what is behind it, with all cookies.
    let login = Client::connect(home.listen).request(
        "POST",
        &format!("http://{}/wp-login.php", home.listen),
        "Content-Length: 0\r\n",
    );
    assert_eq!((login.status, login.field("set-cookie")), (302, format!("{LOGIN}=ann")));
    let both = format!("{LOGIN}=ann; settings=7");
    assert_eq!(ask("/wp-admin/", &both).text(), format!("Some(\"ann\") {both}"));

    // Who is logged in gets their own, each time from the application, also where there is a hit for all others.
    for _ in 0..2 {
        assert_eq!(said(&ask("/?p=1", &both)), ("hello ann".into(), false));
        assert_eq!(said(&ask("/?p=1", &format!("{LOGIN}=bob"))), ("hello bob".into(), false));
        assert_eq!(said(&ask("/?p=1", "_ga=5")), ("/?p=1".into(), true));
    }

    // What is written to a page makes it new for all.
    let comment =
        Client::connect(home.listen).request("POST", &format!("http://{}/?p=1", home.listen), "Content-Length: 0\r\n");
    assert_eq!(comment.status, 200);
    assert_eq!(said(&ask("/?p=1", "")), ("/?p=1".into(), false));
}
