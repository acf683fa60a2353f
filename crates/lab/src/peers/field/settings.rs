//! What each server is started with: its files, made of the templates in `crates/lab/peers`, and its command.

use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::conf::fill;
use super::product::Product;
use super::stand::Stand;
use crate::error::LabError;
use crate::peers::bench::run;
use crate::peers::service::ServiceNames;

/// What all servers have alike for objects.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes of disk; of memory, for those that keep objects there alone.
    pub disk_bytes: u64,
    /// Bytes of memory for objects that are asked for often.
    pub memory_bytes: u64,
}

/// A certificate and its key, for a server that is to speak TLS.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The certificate, PEM.
    pub certificate: PathBuf,
    /// Its key, PEM.
    pub key: PathBuf,
    /// Both in one file.
    pub both: PathBuf,
}

/// What a server is set up with.
pub struct Setting<'a> {
    /// Where it stands.
    pub stand: &'a Stand,
    /// Its program.
    pub program: &'a Path,
    /// What a Squid is called.
    pub services: &'a ServiceNames,
    /// Where it is to listen.
    pub address: SocketAddrV4,
    /// Where the origin is.
    pub origin: SocketAddrV4,
    /// What it has for objects.
    pub room: Room,
    /// By what it is to remove objects when it is full, if it can be told: Tinaja's engine, Squid's policy. Without it each has its default.
    pub replacement: Option<&'a str>,
    /// With TLS and HTTP/2, or without.
    pub tls: Option<&'a Pair>,
}

/// Where Debian's Apache has its modules.
const MODULES: &str = "/usr/lib/apache2/modules";

impl Setting<'_> {
    /// Write its files; the arguments that it is started with, again and again. Errors: a file cannot be written, or the server not be prepared.
    pub fn write(&self, product: Product) -> Result<Vec<String>, LabError> {
        let own = self.own();
        make_dir(&own)?;
        let path = |name: &str| own.join(name).display().to_string();
        let file = |name: &str, template: &str| self.file(product, &own.join(name), template);
        match product {
            Product::Tinaja => {
                file("tinaja.toml", include_str!("../../../peers/tinaja.toml"))?;
                Ok(words(&["serve", "--config", &path("tinaja.toml")]))
            }
            Product::Nginx => {
                file("nginx.conf", include_str!("../../../peers/nginx.conf"))?;
                Ok(words(&["-p", &path(""), "-c", &path("nginx.conf"), "-e", "stderr"]))
            }
            Product::Squid => {
                file("squid.conf", include_str!("../../../peers/squid.conf"))?;
                make_dir(&self.cache())?;
                self.give(product)?;
                let [option, name] = self.services.arguments(0);
                let squid = words(&[&option, &name, "-N", "-f", &path("squid.conf")]);
                run(Command::new(self.program).args(&squid).arg("-z"))?;
                Ok(squid)
            }
            Product::Varnish => {
                file("varnish.vcl", include_str!("../../../peers/varnish.vcl"))?;
                let (address, store) = (self.address.to_string(), format!("malloc,{}", self.room.disk_bytes));
                let fixed = ["-F", "-j", "none", "-a", &address, "-s", &store, "-p", "thread_pools=1"];
                Ok([words(&fixed), words(&["-f", &path("varnish.vcl"), "-n", &path("work")])].concat())
            }
            Product::TrafficServer => {
                ["etc", "run", "log"].iter().try_for_each(|dir| make_dir(&own.join(dir)))?;
                file("runroot.yaml", include_str!("../../../peers/trafficserver/runroot.yaml"))?;
                file("etc/records.config", include_str!("../../../peers/trafficserver/records.config"))?;
                file("etc/storage.config", include_str!("../../../peers/trafficserver/storage.config"))?;
                file("etc/ip_allow.yaml", include_str!("../../../peers/trafficserver/ip_allow.yaml"))?;
                file("etc/remap.config", include_str!("../../../peers/trafficserver/remap.config"))?;
                file("etc/plugin.config", "")?;
                if self.tls.is_some() {
                    file(
                        "etc/ssl_multicert.config",
                        include_str!("../../../peers/trafficserver/ssl_multicert.config"),
                    )?;
                }
                // It makes none itself.
                run(Command::new("fallocate").args(["--length", &self.room.disk_bytes.to_string()]).arg(self.cache()))?;
                Ok(vec![format!("--run-root={}", path("runroot.yaml"))])
            }
            Product::Apache => {
                file("apache.conf", include_str!("../../../peers/apache.conf"))?;
                make_dir(&self.cache())?;
                make_dir(&own.join("locks"))?;
                self.give(product)?;
                Ok(words(&["-d", &path(""), "-f", &path("apache.conf"), "-D", "FOREGROUND"]))
            }
            Product::HaProxy => {
                file("haproxy.cfg", include_str!("../../../peers/haproxy.cfg"))?;
                Ok(words(&["-f", &path("haproxy.cfg"), "-db"]))
            }
        }
    }

    /// Where all but its objects lie.
    pub fn own(&self) -> PathBuf {
        self.stand.aside().join("own")
    }

    fn cache(&self) -> PathBuf {
        self.stand.disk().join("cache")
    }

    fn file(&self, product: Product, path: &Path, template: &str) -> Result<(), LabError> {
        let (address, origin, Room { disk_bytes, memory_bytes }) = (self.address, self.origin, self.room);
        let user = product.user().unwrap_or("root").to_owned();
        let certificate = |of: fn(&Pair) -> &PathBuf| {
            let file = self.tls.map(|pair| of(pair).display().to_string());
            file.unwrap_or_default()
        };
        let (certificate, key) = (certificate(|pair| &pair.certificate), certificate(|pair| &pair.key));
        let values = [
            ("ADDRESS", address.to_string()),
            ("HOST", address.ip().to_string()),
            ("PORT", address.port().to_string()),
            ("ORIGIN", origin.to_string()),
            ("ORIGIN_HOST", origin.ip().to_string()),
            ("ORIGIN_PORT", origin.port().to_string()),
            ("CACHE", self.cache().display().to_string()),
            ("OWN", self.own().display().to_string()),
            ("DISK_BYTES", disk_bytes.to_string()),
            ("DISK_MIB", (disk_bytes >> 20).to_string()),
            ("MEMORY_BYTES", memory_bytes.to_string()),
            ("MEMORY_MIB", (memory_bytes >> 20).to_string()),
            // Squid's word for a listener.
            ("LISTEN", if self.tls.is_some() { "https_port" } else { "http_port" }.to_owned()),
            ("USER", user.clone()),
            ("GROUP", user),
            ("MODULES", MODULES.to_owned()),
            ("CERTIFICATE", certificate),
            ("KEY", key),
            ("REPLACEMENT", self.replacement.map_or_else(String::new, |told| by_replacement(product, told))),
            ("TLS", self.tls.map_or_else(String::new, |pair| by_tls(product, pair))),
        ];
        fs::write(path, fill(template, &values)?)
            .map_err(|why| LabError::failed("writing a server's settings", format!("{}: {why}", path.display())))
    }

    /// Let a server that gives up root's rights have its directories.
    fn give(&self, product: Product) -> Result<(), LabError> {
        let Some(user) = product.user() else { return Ok(()) };
        run(Command::new("chown").args(["-R", user]).args([self.own(), self.cache()])).map(drop)
    }
}

/// What stands at `@REPLACEMENT@` in the settings of who can be told: Tinaja its engine, Squid its policy.
fn by_replacement(product: Product, told: &str) -> String {
    match product {
        Product::Tinaja => format!("engine = \"{told}\""),
        Product::Squid => format!("cache_replacement_policy {told}\nmemory_replacement_policy {told}"),
        _ => String::new(),
    }
}

/// What stands at `@TLS@` in a server's settings, so that its listener is one by TLS, and speaks HTTP/2.
fn by_tls(product: Product, pair: &Pair) -> String {
    let (certificate, key) = (pair.certificate.display(), pair.key.display());
    match product {
        Product::Tinaja => format!("[[listener.certificate]]\nfile = \"{certificate}\"\nkey = \"{key}\"\n"),
        // Until 1.23.4 TLS 1.3 has to be asked for.
        Product::Nginx => format!(
            " ssl http2;\n        ssl_protocols TLSv1.2 TLSv1.3;\n        ssl_certificate {certificate};\n        \
             ssl_certificate_key {key}"
        ),
        Product::TrafficServer => ":ssl".to_owned(),
        Product::Apache => format!(
            "LoadModule ssl_module {MODULES}/mod_ssl.so\nLoadModule http2_module {MODULES}/mod_http2.so\nProtocols h2 http/1.1\n\
             SSLEngine on\nSSLCertificateFile {certificate}\nSSLCertificateKeyFile {key}\n"
        ),
        Product::HaProxy => format!(" ssl crt {} alpn h2,http/1.1", pair.both.display()),
        Product::Squid => format!(" tls-cert={certificate} tls-key={key}"),
        // It has none.
        Product::Varnish => String::new(),
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn make_dir(path: &Path) -> Result<(), LabError> {
    fs::create_dir(path).map_err(|why| LabError::failed("making a server's directory", why))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Squid's policy holds for the directories that come after it.
    #[test]
    fn who_can_be_told_what_leaves_is_told() {
        let squid = include_str!("../../../peers/squid.conf");
        assert!(squid.find("\n@REPLACEMENT@") < squid.find("\ncache_dir"), "{squid}");
        let told = by_replacement(Product::Squid, "heap GDSF");
        assert_eq!(told, "cache_replacement_policy heap GDSF\nmemory_replacement_policy heap GDSF");
        assert_eq!(by_replacement(Product::Tinaja, "segmented"), "engine = \"segmented\"");
        assert_eq!(by_replacement(Product::Varnish, "lru"), "");
    }
}
