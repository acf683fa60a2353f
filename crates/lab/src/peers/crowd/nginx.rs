//! nginx on each node, and before them a HAProxy that sends each URL to the node that a consistent hash gives.

use std::path::Path;
use std::process::Command;

use super::{PORT, Setting, program, write as write_file};
use crate::error::LabError;
use crate::peers::places::Places;

/// Settings of one nginx, which keeps what comes as the origin says.
pub fn write(setting: &Setting<'_>, n: u8, own: &Path) -> Result<(), LabError> {
    let Setting { places, origin, room, .. } = setting;
    let (dir, megabytes, address) = (own.display(), room.disk_bytes >> 20, places.of(n));
    write_file(
        &own.join("nginx.conf"),
        &format!(
            "daemon off;\nworker_processes 1;\nuser root;\npid {dir}/pid;\nerror_log {dir}/log warn;\n\
             events {{ worker_connections 4096; }}\n\
             http {{\n access_log off;\n client_body_temp_path {dir}/body;\n proxy_temp_path {dir}/temp;\n \
             fastcgi_temp_path {dir}/fastcgi;\n uwsgi_temp_path {dir}/uwsgi;\n scgi_temp_path {dir}/scgi;\n \
             proxy_cache_path {dir}/cache levels=1:2 keys_zone=all:16m max_size={megabytes}m inactive=1d use_temp_path=off;\n \
             upstream origin {{ server {origin}; keepalive 64; }}\n \
             server {{\n  listen {address}:{PORT};\n  location / {{\n   proxy_pass http://origin;\n   proxy_http_version 1.1;\n   \
             proxy_set_header Connection \"\";\n   proxy_set_header Host $http_host;\n   proxy_cache all;\n   proxy_cache_lock on;\n   \
             proxy_cache_key http://$http_host$request_uri;\n  }}\n }}\n}}\n"
        ),
    )
}

pub fn command(places: &Places, n: u8, own: &Path) -> Result<Command, LabError> {
    let mut command = places.command(n, &program("nginx")?);
    command.arg("-p").arg(own).arg("-c").arg(own.join("nginx.conf")).args(["-e", "stderr"]);
    Ok(command)
}

/// The HAProxy, where clients ask. It looks twice a second whether each node is there. One that refuses a connection is passed by at once, until it has been found
/// there twice: else all that is its share would be answered with 503 for a second.
pub fn front(setting: &Setting<'_>) -> Result<Command, LabError> {
    let Setting { places, count, dir, .. } = setting;
    let here = places.here();
    let servers: Vec<_> = (0..*count)
        .map(|n| format!(" server box-{n} {}:{PORT} check inter 500ms fall 2 rise 2 observe layer4 error-limit 1 on-error mark-down\n", places.of(n)))
        .collect();
    let file = dir.join("haproxy.cfg");
    write_file(
        &file,
        &format!(
            "global\n maxconn 4096\n nbthread 1\ndefaults\n mode http\n timeout connect 1s\n timeout client 60s\n timeout server 60s\n \
             retries 3\n option redispatch 1\n retry-on conn-failure empty-response\n\
             frontend clients\n bind {here}:{PORT}\n default_backend nodes\n\
             backend nodes\n balance uri\n hash-type consistent\n{}",
            servers.concat()
        ),
    )?;
    let mut command = Command::new(program("haproxy")?);
    command.arg("-f").arg(file).arg("-db");
    Ok(command)
}
