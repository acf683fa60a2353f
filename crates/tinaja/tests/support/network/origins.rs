//! The origins: nginx, which is all of them, and says which one it is.

use std::fs;
use std::net::SocketAddr;

use tempfile::TempDir;
use tinaja_testkit::network::Machine;
use tinaja_testkit::nginx::make_certificates_for;
use tinaja_testkit::process::Process;

use super::{A, B, PRIVATE, in_url};

/// Starts it on their machine. Its log and its files are in the directory.
pub(super) fn start_nginx(dir: &TempDir, origins: &Machine) -> Process {
    let at = dir.path().display();
    let mut servers = String::new();
    for (name, addresses) in [("a", &A[..]), ("b", &B[..]), ("private", &[PRIVATE])] {
        let home = dir.path().join(name);
        fs::create_dir_all(home.join("files")).unwrap();
        fs::write(home.join("files/file"), format!("{name}'s file")).unwrap();
        let mut listen = String::new();
        for address in addresses {
            let address = in_url(address);
            listen += &format!("listen {address}:80; listen {address}:443 ssl; ");
        }
        let files = make_certificates_for(&home, &format!("DNS:{name}.test,IP:{}", addresses[0]));
        servers += &format!(
            "server {{ {listen} ssl_certificate {}; ssl_certificate_key {}; add_header X-Server {name} always;
                 location /private/ {{ add_header X-Server {name}; add_header Cache-Control no-store; return 200 \"{name}\\n\"; }}
                 location /files/ {{ root {home}; add_header X-Server {name} always; add_header Cache-Control max-age=600; }}
                 location / {{ add_header X-Server {name}; add_header Cache-Control max-age=600; return 200 \"{name} $request_uri\\n\"; }} }}\n",
            files.certificate.display(),
            files.key.display(),
            home = home.display(),
        );
    }
    let text = format!(
        "daemon off; master_process off; pid {at}/pid; events {{ worker_connections 512; }}
         http {{ log_format tests '$server_addr $scheme $http_host $request_uri $request_method $status $http_via';
                 access_log {at}/nginx.log tests; client_body_temp_path {at}/tmp-body; proxy_temp_path {at}/tmp-proxy;
                 fastcgi_temp_path {at}/tmp-fastcgi; uwsgi_temp_path {at}/tmp-uwsgi; scgi_temp_path {at}/tmp-scgi;
                 {servers} }}\n"
    );
    let conf = dir.path().join("nginx.conf");
    fs::write(&conf, text).unwrap();
    let mut command = origins.command("/usr/sbin/nginx");
    command.arg("-p").arg(dir.path()).arg("-c").arg(&conf).args(["-e", "stderr"]);
    let mut nginx = Process::start("nginx", &mut command, &dir.path().join("nginx.output"));
    nginx.wait_until_listening(SocketAddr::new(A[0].parse().unwrap(), 80));
    nginx
}
