//! How each server is started: in the foreground, with a configuration of its own, one process.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

type Start = fn(&Path, SocketAddr, SocketAddr) -> Command;

pub const COMMANDS: [(&str, Start); 5] =
    [("nginx", nginx), ("Apache", apache), ("HAProxy", haproxy), ("Node", node), ("Python", python)];

fn nginx(directory: &Path, listen: SocketAddr, sink: SocketAddr) -> Command {
    let at = directory.display();
    let conf = format!(
        "daemon off; master_process off; pid {at}/pid; error_log stderr crit;
events {{ worker_connections 256; }}
http {{
    access_log off; client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;
    uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi; large_client_header_buffers 8 32k;
    server {{
        listen {listen}; lingering_close off;
        location / {{
            proxy_pass http://{sink}; proxy_http_version 1.1; proxy_set_header Host $http_host; proxy_set_header Connection close;
        }}
    }}
}}
"
    );
    let path = write(directory, "nginx.conf", &conf);
    let mut command = Command::new("/usr/sbin/nginx");
    command.arg("-p").arg(directory).arg("-c").arg(path).args(["-e", "stderr"]);
    command
}

fn apache(directory: &Path, listen: SocketAddr, sink: SocketAddr) -> Command {
    let modules = ["mpm_event", "authz_core", "proxy", "proxy_http"]
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .concat();
    let at = directory.display();
    // Unknown methods and encoded slashes are this proxy's affair, not the test's.
    let conf = format!(
        "{modules}ServerRoot {at}\nPidFile {at}/pid\nDefaultRuntimeDir {at}\nServerName localhost\nListen {listen}\nErrorLog {at}/errors
LimitRequestFieldSize 32000\nAllowEncodedSlashes NoDecode\nProxyPreserveHost On\nMaxKeepAliveRequests 0
ProxyPass / http://{sink}/ nocanon disablereuse=on\nProxyAddHeaders Off
"
    );
    let path = write(directory, "apache.conf", &conf);
    let mut command = Command::new("/usr/sbin/apache2");
    command.args(["-X", "-d"]).arg(directory).arg("-f").arg(path);
    command
}

fn haproxy(directory: &Path, listen: SocketAddr, sink: SocketAddr) -> Command {
    let conf = format!(
        "global
    maxconn 256
defaults
    mode http
    timeout client 20s
    timeout server 20s
    timeout connect 5s
    option http-buffer-request
    option http-server-close
listen parser
    bind {listen}
    server sink {sink}
"
    );
    let path = write(directory, "haproxy.conf", &conf);
    let mut command = Command::new("/usr/sbin/haproxy");
    command.arg("-db").arg("-f").arg(path);
    command
}

fn node(directory: &Path, listen: SocketAddr, _sink: SocketAddr) -> Command {
    let path = write(directory, "parser.js", include_str!("node.js"));
    let mut command = Command::new("node");
    command.arg(path).arg(listen.port().to_string());
    command
}

fn python(directory: &Path, listen: SocketAddr, _sink: SocketAddr) -> Command {
    let path = write(directory, "parser.py", include_str!("python.py"));
    let mut command = Command::new("/usr/bin/python3");
    command.arg(path).arg(listen.port().to_string());
    command
}

fn write(directory: &Path, name: &str, text: &str) -> std::path::PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, text).unwrap();
    path
}
